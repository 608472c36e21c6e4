// SPDX-License-Identifier: Apache-2.0
// size: one protocol, whose steps and whose argument belong together.
//
// Staged: any collective of any size between plain buffers, in rounds through kRoundSlots slots; every CUDA block works
// on its own share of the data. Its warps have three roles, which run through the rounds on their own:
//   stage    copies this rank's pieces of a round to where peers see them
//   take     reduces, or copies, what it wants of the peers' pieces
//   collect  two-shot patterns: copies the peers' reduced pieces
// so that the hops and fences of one role hide behind the work of the others.
//
// Flags count rounds since the lane began, have one writer, only grow, and lie in the slice of who waits for them.
// Every rank tells itself, too, which is how the roles of a block wait for each other:
//   staged    R1 pairs with A1: the writer's pieces of the round stand in its stage slot
//   reduced   R2 pairs with A2: its result stands in its result slot, and it has read the peers' pieces
//   consumed  R3 pairs with A3: it reads nothing of the round any more, so this rank may reuse the round's slots
// R: Block::Sync orders the stores (R1, R2) and loads (R3) of a role's threads before one thread's release store at
// system scope, which peers on other GPUs observe. A: some threads poll relaxed, acquire once, and Block::Sync passes
// on to the role what they have acquired. What another role of a block did before it became known to a peer, whose flag
// is acquired here, is ordered, too.
//
// Slots: round g is staged, and its result written, once all ranks have consumed round g - kRoundSlots. In place, a
// piece of the user's buffer is overwritten once it was staged (A1 with this rank's own flag), or once a peer has
// reduced what was staged. No cycle: consuming round g needs rounds <= g of others only, and staging g only consumed
// rounds < g.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/move.h"
#include "modules/algo-symmetric/kernels/reduce.h"

namespace sl::algo_symmetric::kernels {

enum class Role : uint32_t { kStage, kTake, kCollect };

// Warps of the roles, by threads. Who collects takes from who takes.
constexpr uint32_t kStageThreads = 96;
constexpr uint32_t kCollectThreads = 128;

// F is the format that a pattern which reduces computes in, void where nothing is computed.
template <typename F>
class Staged {
 public:
  // How many rounds the block has run in the launches before.
  SL_HD static uint64_t* Rounds(const Team& team, uint32_t block) {
    return reinterpret_cast<uint64_t*>(team.At(team.rank, team.layout.rounds)) + block;
  }

  SL_HD Staged(const Args& args, const dev::Block& block, uint64_t base)
      : args_(args), team_(args.team), block_(block), base_(base), begin_(block.index * args.share_elements) {}

  // False when a wait was ended.
  SL_HD bool Run(Role role) const {
    if (role == Role::kStage) {
      for (uint64_t round = 0; args_.pattern.publishes && round < args_.rounds; ++round) {
        if (!Stage(round)) return false;
      }
    } else if (role == Role::kTake) {
      for (uint64_t round = 0; round < args_.rounds; ++round) {
        if (!Take(round)) return false;
      }
    } else if (args_.pattern.results_wanted) {
      for (uint64_t round = 0; round < args_.rounds; ++round) {
        if (!Collect(round)) return false;
      }
    }
    return true;
  }

 private:
  // The bytes of `block` that are this CUDA block's in a round.
  SL_HD uint32_t PieceBytes(uint64_t block, uint64_t round) const {
    const uint64_t in_share = round * args_.piece_elements;
    const uint64_t length = args_.pattern.Length(block);
    const uint64_t begin = begin_ + in_share;
    if (begin >= length || in_share >= args_.share_elements) return 0;
    uint64_t elements = length - begin;
    if (elements > args_.share_elements - in_share) elements = args_.share_elements - in_share;
    if (elements > args_.piece_elements) elements = args_.piece_elements;
    return static_cast<uint32_t>(elements * args_.element_bytes);
  }
  SL_HD uint32_t LongestBytes() const { return static_cast<uint32_t>(args_.piece_elements * args_.element_bytes); }
  SL_HD uint64_t UserOffset(uint64_t block, uint64_t round) const {
    return args_.BlockOffset(block, begin_ + round * args_.piece_elements);
  }
  // Whether `count` blocks of a user's buffer all begin at aligned addresses.
  SL_HD bool BlocksAligned(const uint8_t* buffer, uint32_t count) const {
    const uint64_t apart = count > 1 ? args_.pattern.block_elements * args_.element_bytes : 0;
    return dev::IsAligned(buffer, kVectorBytes) && apart % kVectorBytes == 0;
  }
  SL_HD uint8_t* StagedPiece(uint32_t r, uint64_t round, uint32_t block) const {
    const uint64_t slot = block_.index * kRoundSlots + (base_ + round) % kRoundSlots;
    return team_.At(r, team_.layout.stage + slot * team_.layout.stage_slot_bytes) +
           static_cast<uint64_t>(block) * LongestBytes();
  }
  SL_HD uint8_t* ResultPiece(uint32_t r, uint64_t round) const {
    const uint64_t slot = block_.index * kRoundSlots + (base_ + round) % kRoundSlots;
    return team_.At(r, team_.layout.result + slot * team_.layout.piece_bytes);
  }

  // A1, A2, A3. A wait for this rank itself is a wait for another role, whose own wait is the one to be recorded.
  SL_HD bool AwaitFlag(uint64_t table, uint32_t r, uint64_t value, uint32_t step) const {
    const dev::Wanted wanted{r == team_.rank ? -1 : static_cast<int32_t>(r), step, value};
    return dev::AwaitAtLeast(team_.Flag(team_.rank, table, block_.index, r), wanted, team_.warden);
  }
  // Waits for the flags of one rank, or of all (-1), in a table of this rank's slice.
  SL_HD bool Await(uint64_t table, int32_t from, uint64_t value, uint32_t step) const {
    bool given_up = false;
    for (uint32_t r = block_.thread(); r < team_.size; r += block_.threads()) {
      if (from >= 0 && static_cast<int32_t>(r) != from) continue;
      if (!AwaitFlag(table, r, value, step)) given_up = true;
    }
    return team_.HasCome(block_, given_up);
  }
  // The slots of a round are free.
  SL_HD bool AwaitSlot(uint64_t round) const {
    return base_ + round < kRoundSlots || Await(team_.layout.consumed, -1, base_ + round + 1 - kRoundSlots, kStepSlot);
  }
  // Tells all ranks. R1, R2, R3.
  SL_HD void Signal(uint64_t table, uint64_t value) const {
    block_.Sync();
    for (uint32_t i = block_.thread(); i < team_.size; i += block_.threads()) {
      const uint32_t r = i + 1 < team_.size ? team_.Peer(i) : team_.rank;
      dev::Dawdle(team_.warden.dawdle_ns);
      dev::StoreRelease(team_.Flag(r, table, block_.index, team_.rank), value);
    }
  }

  SL_HD bool Stage(uint64_t round) const {
    if (!AwaitSlot(round)) return false;
    bool staged = false;
    if constexpr (!std::is_void_v<F>) {
      if (args_.Scales()) {
        StagePieces(round, FromUserScaled<F>{args_.Scalar()}, args_.pattern.blocks);
        staged = true;
      }
    }
    // Of many blocks, a rank's own goes to nobody else.
    if (!staged) StagePieces(round, FromUser{}, args_.pattern.blocks > 1 ? args_.pattern.blocks - 1 : 1);
    Signal(team_.layout.staged, base_ + round + 1);
    return true;
  }
  template <typename Load>
  SL_HD void StagePieces(uint64_t round, const Load& load, uint32_t count) const {
    const uint32_t blocks = args_.pattern.blocks;
    MoveRanges(block_, count, LongestBytes(), BlocksAligned(args_.send, blocks), load, [&](uint32_t i) {
      const uint32_t block = blocks == 1 ? 0 : (team_.rank + 1 + i) % blocks;
      return Range{args_.send + UserOffset(block, round), StagedPiece(team_.rank, round, block),
                   PieceBytes(block, round)};
    });
  }

  // Takes this rank's block of the publications of a round.
  SL_HD bool Take(uint64_t round) const {
    const Pattern& pattern = args_.pattern;
    const int32_t from = pattern.sources == Sources::kAll ? -1 : args_.giver;
    if (pattern.results_wanted && !AwaitSlot(round)) return false;
    if (pattern.sources != Sources::kNone && !Await(team_.layout.staged, from, base_ + round + 1, kStepStaged)) {
      return false;
    }
    if constexpr (std::is_void_v<F>) {
      if (pattern.sources == Sources::kRoot) TakeFromGiver(round);
      if (pattern.sources == Sources::kAll) TakeAll(round);
    } else {
      if (pattern.sources == Sources::kAll) ReduceAll(round);
    }
    if (pattern.results_wanted) {
      Signal(team_.layout.reduced, base_ + round + 1);
    } else {
      Signal(team_.layout.consumed, base_ + round + 1);
    }
    return true;
  }

  SL_HD const uint8_t* OwnSend(uint64_t round) const {
    return args_.send + UserOffset(args_.pattern.source_block, round);
  }
  // Puts the own contribution where it belongs in the own result.
  SL_HD void MoveOwn(uint8_t* to, uint64_t round) const {
    const Range own{OwnSend(round), to, PieceBytes(args_.pattern.source_block, round)};
    if (own.from == own.to) return;
    const bool aligned = dev::IsAligned(own.from, kVectorBytes) && dev::IsAligned(own.to, kVectorBytes);
    MoveRanges(block_, 1, own.bytes, aligned, FromUser{}, [&](uint32_t) { return own; });
  }

  // One publication, of which every rank takes its block; in two-shot patterns to hand it on.
  SL_HD void TakeFromGiver(uint64_t round) const {
    const Pattern& pattern = args_.pattern;
    const uint32_t block = pattern.source_block;
    const auto giver = static_cast<uint32_t>(args_.giver);
    uint8_t* to = pattern.results_wanted ? ResultPiece(team_.rank, round)
                                         : args_.recv + args_.BlockOffset(0, begin_ + round * args_.piece_elements);
    if (giver == team_.rank) {
      MoveOwn(to, round);
      if (pattern.results_wanted && args_.send != args_.recv) KeepAll(round);
      return;
    }
    const Range piece{StagedPiece(giver, round, block), to, PieceBytes(block, round)};
    MoveRanges(block_, 1, piece.bytes, dev::IsAligned(to, kVectorBytes), FromPeer{}, [&](uint32_t) { return piece; });
    if (!pattern.results_wanted) return;
    block_.Sync();
    const Range kept{to, args_.recv + UserOffset(block, round), piece.bytes};
    MoveRanges(block_, 1, kept.bytes, dev::IsAligned(kept.to, kVectorBytes), FromUser{},
               [&](uint32_t) { return kept; });
  }
  // The giver of a two-shot pattern has all blocks already.
  SL_HD void KeepAll(uint64_t round) const {
    const uint32_t blocks = args_.pattern.blocks;
    const bool aligned = BlocksAligned(args_.send, blocks) && BlocksAligned(args_.recv, blocks);
    MoveRanges(block_, blocks, LongestBytes(), aligned, FromUser{}, [&](uint32_t block) {
      const uint64_t offset = UserOffset(block, round);
      return Range{args_.send + offset, args_.recv + offset, PieceBytes(block, round)};
    });
  }

  SL_HD void TakeAll(uint64_t round) const {
    const uint32_t block = args_.pattern.source_block;
    const uint64_t begin = begin_ + round * args_.piece_elements;
    const uint32_t bytes = PieceBytes(block, round);
    MoveRanges(block_, team_.size - 1, bytes, BlocksAligned(args_.recv, team_.size), FromPeer{}, [&](uint32_t i) {
      const uint32_t r = team_.Peer(i);
      return Range{StagedPiece(r, round, block), args_.recv + args_.BlockOffset(r, begin), bytes};
    });
    MoveOwn(args_.recv + args_.BlockOffset(team_.rank, begin), round);
  }

  SL_HD void ReduceAll(uint64_t round) const {
    const Pattern& pattern = args_.pattern;
    const uint32_t block = pattern.source_block;
    const bool private_own = !args_.Scales();
    Operands in{};
    in.staged = StagedPiece(0, round, block);
    in.stride = team_.stride;
    in.own = private_own ? OwnSend(round) : StagedPiece(team_.rank, round, block);
    if (pattern.results_wanted) {
      in.to = ResultPiece(team_.rank, round);
      in.kept = pattern.regathers ? args_.recv + UserOffset(block, round) : nullptr;
    } else {
      in.to = args_.recv + args_.BlockOffset(0, begin_ + round * args_.piece_elements);
    }
    in.bytes = PieceBytes(block, round);
    in.rank = team_.rank;
    in.size = team_.size;
    in.average_over = args_.AverageOver();
    Reduce<F>(block_, in, args_.reduction);
  }

  // This rank has reduced its piece, and, if it collects, so have all. In this order: whoever holds up the reduction
  // here is who to name, not those whom it holds up elsewhere.
  SL_HD bool AwaitReduced(uint64_t round) const {
    const uint64_t value = base_ + round + 1;
    bool given_up = false;
    for (uint32_t r = block_.thread(); r < team_.size; r += block_.threads()) {
      if (!AwaitFlag(team_.layout.reduced, team_.rank, value, kStepReduced) ||
          (args_.pattern.regathers && !AwaitFlag(team_.layout.reduced, r, value, kStepReduced))) {
        given_up = true;
      }
    }
    return team_.HasCome(block_, given_up);
  }

  // Two-shot: copies the peers' reduced pieces of a round.
  SL_HD bool Collect(uint64_t round) const {
    if (!AwaitReduced(round)) return false;
    if (args_.pattern.regathers) {
      const bool aligned = BlocksAligned(args_.recv, team_.size);
      MoveRanges(block_, team_.size - 1, LongestBytes(), aligned, FromPeer{}, [&](uint32_t i) {
        const uint32_t r = team_.Peer(i);
        return Range{ResultPiece(r, round), args_.recv + UserOffset(r, round), PieceBytes(r, round)};
      });
    }
    Signal(team_.layout.consumed, base_ + round + 1);
    return true;
  }

  const Args& args_;
  const Team& team_;
  const dev::Block block_;
  const uint64_t base_;   // rounds run before this launch
  const uint64_t begin_;  // this block's share of every pattern block
};

// The whole of a block on a GPU.
template <typename F>
SL_HD void RunStaged(const Args& args, const dev::Block& block) {
  uint64_t* rounds = Staged<F>::Rounds(args.team, block.index);
  const uint64_t base = *rounds;
  block.Sync();  // all have read it
  if (base == kEnded) return;
  // At once, so that a launch that comes beside the end of this one counts on from there.
  if (block.thread() == 0) *rounds = base + args.rounds;
  const uint32_t collects = args.pattern.results_wanted ? block.count - kCollectThreads : block.count;
  const uint32_t thread = block.thread();
  const Role role = thread < kStageThreads ? Role::kStage : thread < collects ? Role::kTake : Role::kCollect;
  const uint32_t first = role == Role::kStage ? 0 : role == Role::kTake ? kStageThreads : collects;
  const uint32_t end = role == Role::kStage ? kStageThreads : role == Role::kTake ? collects : block.count;
  const dev::Block part = dev::Block::Part(block.index, first, end - first, 1 + static_cast<uint32_t>(role));
  const bool given_up = block.SyncAny(!Staged<F>(args, part, base).Run(role));
  if (given_up && thread == 0) *rounds = kEnded;
  args.team.LetNextIn(Trigger::kHeard);
}

}  // namespace sl::algo_symmetric::kernels

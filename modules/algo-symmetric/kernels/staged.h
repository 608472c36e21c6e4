// SPDX-License-Identifier: Apache-2.0
// size: one protocol, whose steps and whose argument belong together.
//
// Staged: any collective of any size between plain buffers, in rounds through kRoundSlots slots; what the host half's
// pipelined kernel does, for every block of the grid on its own share of the data. In turn i a block stages the pieces
// of round i, takes those of round i - 1, and, in two-shot patterns, collects the results of round i - 2.
//
// Flags count rounds since the lane began, have one writer, only grow, and lie in the slice of who waits for them:
//   staged    R1 pairs with A1: the writer's pieces of the round stand in its stage slot
//   reduced   R2 pairs with A2: its result stands in its result slot
//   consumed  R3 pairs with A3: it has read all it wanted of the round, so this rank may reuse the round's slots
// R: Block::Sync orders the stores (R1, R2) and loads (R3) of all threads before one thread's release store at system
// scope, which peers on other GPUs observe. A: some threads poll relaxed, fence, and Block::Sync passes on to all
// threads what they have acquired.
//
// Slots: staging round g waits until all peers have consumed round g - kRoundSlots, and the result slot of g is written
// after that. No cycle: consuming round g needs rounds <= g of others only, and staging g only consumed rounds < g.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/move.h"

namespace sl::algo_symmetric::kernels {

// F is the format that a pattern which reduces computes in, void where nothing is computed.
template <typename F>
class Staged {
 public:
  SL_HD Staged(const Args& args, const dev::Block& block)
      : args_(args), team_(args.team), block_(block), base_(*Rounds()), begin_(block.index * args.share_elements) {}

  SL_HD void Run() {
    const uint64_t lag = args_.pattern.results_wanted ? 2 : 1;
    for (uint64_t turn = 0; turn < args_.rounds + lag; ++turn) {
      if (turn < args_.rounds && !Stage(turn)) return;
      if (turn >= 1 && turn <= args_.rounds && !Take(turn - 1)) return;
      if (turn >= 2 && lag == 2 && !Collect(turn - 2)) return;
    }
    if (block_.thread() == 0) *Rounds() = base_ + args_.rounds;  // all threads read it before the first Sync
  }

 private:
  SL_HD uint64_t* Rounds() const {
    return reinterpret_cast<uint64_t*>(team_.At(team_.rank, team_.layout.rounds)) + block_.index;
  }
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
    return team_.At(r, team_.layout.result + slot * kPieceBytes);
  }

  // Waits for the flags of one rank, or of all peers (-1), in a table of this rank's slice. A1, A2, A3.
  SL_HD bool Await(uint64_t table, int32_t from, uint64_t value, uint32_t step) const {
    bool given_up = false;
    for (uint32_t r = block_.thread(); r < team_.size; r += block_.threads()) {
      if (r == team_.rank || (from >= 0 && static_cast<int32_t>(r) != from)) continue;
      const dev::Wanted wanted{static_cast<int32_t>(r), step, value};
      if (!dev::AwaitAtLeast(team_.Flag(team_.rank, table, block_.index, r), wanted, team_.warden)) given_up = true;
    }
    return !block_.SyncAny(given_up);
  }
  // Tells all peers. R1, R2, R3.
  SL_HD void Signal(uint64_t table, uint64_t value) const {
    block_.Sync();
    for (uint32_t i = block_.thread(); i + 1 < team_.size; i += block_.threads()) {
      dev::StoreRelease(team_.Flag(team_.Peer(i), table, block_.index, team_.rank), value);
    }
  }

  SL_HD bool Stage(uint64_t round) const {
    if (base_ + round >= kRoundSlots && !Await(team_.layout.consumed, -1, base_ + round + 1 - kRoundSlots, kStepSlot)) {
      return false;
    }
    if (!args_.pattern.publishes) return true;
    if constexpr (!std::is_void_v<F>) {
      if (args_.Scales()) {
        StagePieces(round, FromUserScaled<F>{args_.Scalar()}, args_.pattern.blocks);
        Signal(team_.layout.staged, base_ + round + 1);
        return true;
      }
    }
    // Of many blocks, a rank's own goes to nobody else.
    StagePieces(round, FromUser{}, args_.pattern.blocks > 1 ? args_.pattern.blocks - 1 : 1);
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

  // Two-shot: copies the peers' reduced pieces of a round.
  SL_HD bool Collect(uint64_t round) const {
    if (args_.pattern.regathers) {
      if (!Await(team_.layout.reduced, -1, base_ + round + 1, kStepReduced)) return false;
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

}  // namespace sl::algo_symmetric::kernels

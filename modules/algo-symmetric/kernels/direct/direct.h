// SPDX-License-Identifier: Apache-2.0
//
// Direct: data goes from callers' buffers to callers' buffers, in one hop, without a staging area. The ranks' blocks of
// one number meet (meeting.h); between the beginning and the end of the meeting each loads from and stores to its
// peers' buffers. If any rank's buffer is out of reach, all learn it there, and the launch goes on in rounds
// (staged.h).
//
//   reduce  a range of all send buffers becomes one, stored to one rank's receive buffer or to all: each element is
//           reduced by one rank, in rank order, so all ranks get the same bits
//   spread  a range of one send buffer is stored to one receive buffer or to several
//   pairs   one range with every rank, of an all-gather the same: loaded from the peers (pull) or stored to them (push)
//
// In place: a location of a buffer that is read and written is read and written by one thread of one rank alone, which
// has loaded what it reduces before it stores, or is not written at all. An all-to-all in place would not be so: its
// ranks say that they are out of reach.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/direct/bulk_spread.h"
#include "modules/algo-symmetric/kernels/direct/direct_reduce.h"
#include "modules/algo-symmetric/kernels/direct/spread.h"
#include "sdk/device/draw.h"

namespace sl::algo_symmetric::kernels {

enum class DirectKind : uint32_t { kNone, kReduce, kSpread, kPull, kPush };  // kNone: the rounds serve, nobody meets

// What one rank does when all are in reach. Offsets and lengths are bytes; whole elements.
struct DirectWork {
  DirectKind kind;
  int32_t giver;         // spread: whose send buffer is read
  int32_t taker;         // reduce, spread: whose receive buffer is written; -1: all but `spared`
  int32_t spared;        // -1: none
  uint64_t bytes;        // of the range, or of every peer's; 0: it only meets
  uint64_t share_bytes;  // of it, each CUDA block's; a multiple of kVectorBytes
  uint64_t from;         // where it begins in send buffers
  uint64_t from_step;    // pull, push: more for each rank; what is pushed to be reduced (push_reduce.h), too
  uint64_t to;           // and in receive buffers
  uint64_t to_step;
  uint32_t blocks = 0;       // of the grid
  uint32_t piece_bytes = 0;  // of the range, or of every peer's, what is drawn at a time; 0: every block has its share
  bool in_bulk = false;      // what is drawn is moved by bulk copies, where the GPU has them and addresses are aligned
};

// A collective that may take rounds: how, and what to do instead if all buffers are in reach.
struct LongArgs {
  Args args;
  DirectWork direct;
  Reach reach;
};

// F as in Staged.
template <typename F>
class Direct {
 public:
  SL_HD Direct(const LongArgs& args, const dev::Block& block, DirectTable* table)
      : args_(args.args), work_(args.direct), team_(args.args.team), block_(block), table_(table) {
    if (is_drawn()) {
      bytes_ = work_.bytes;
      return;
    }
    begin_ = block.index * work_.share_bytes;
    const uint64_t left = begin_ < work_.bytes ? work_.bytes - begin_ : 0;
    bytes_ = left < work_.share_bytes ? left : work_.share_bytes;
  }

  SL_HD bool StoresToPeers() const {
    if (work_.kind == DirectKind::kPull || work_.taker == static_cast<int32_t>(team_.rank)) return false;
    const bool spares_peer = work_.spared >= 0 && work_.spared != static_cast<int32_t>(team_.rank);
    return team_.size - 1 > static_cast<uint32_t>(spares_peer);
  }

  // Once the places are known.
  SL_HD void Run() const {
    if (bytes_ == 0) return;
    const bool alike = !block_.SyncAny(!FillTable());
    const uint32_t takers = Takers();
    const dev::Block worker = is_drawn() ? dev::Draws::WorkerOf(block_) : block_;
    if constexpr (std::is_void_v<F>) {
      if (work_.kind == DirectKind::kSpread && takers == 1 && table_->to[0] == nullptr) return;  // a root in place
      const DirectRanges in{table_,  Ranges(), takers, bytes_, work_.piece_bytes, is_drawn() ? 0 : block_.index,
                            pulls(), alike};
      if constexpr (dev::kHasBulk) {
        if (goes_in_bulk()) return SpreadInBulk(Draws(BulkWorkersOf(block_.count)), block_, in);
      }
      SpreadDirect(Draws(dev::Draws::WorkersOf(block_.count)), worker, in);
    } else {
      DirectOperands in{*table_, bytes_, team_.size, takers, args_.AverageOver(), team_.Peer(0)};
      if (!alike) in.Look(work_.taker == static_cast<int32_t>(team_.rank));
      const Pieces pieces{bytes_, work_.piece_bytes, in.Head()};
      ReduceDirect<F>(Draws(dev::Draws::WorkersOf(block_.count)), worker, in, pieces, args_.reduction);
    }
  }

 private:
  SL_HD bool is_drawn() const { return work_.piece_bytes != 0; }
  SL_HD bool is_pairs() const { return work_.kind == DirectKind::kPull || work_.kind == DirectKind::kPush; }
  // Sources are peers' memory.
  SL_HD bool pulls() const {
    if (work_.kind == DirectKind::kSpread) return work_.giver != static_cast<int32_t>(team_.rank);
    return work_.kind == DirectKind::kPull;
  }
  SL_HD uint32_t Takers() const { return work_.taker < 0 && !is_pairs() ? team_.size : 1; }
  SL_HD uint32_t Ranges() const { return is_pairs() ? team_.size : 1; }

  SL_HD bool goes_in_bulk() const {
    return work_.in_bulk && table_->IsAligned(Ranges(), is_pairs() ? team_.size : Takers());
  }

  // `workers`: of every block.
  SL_HD dev::Draws Draws(uint32_t workers) const {
    if (!is_drawn()) return {nullptr, Ranges(), 0};
    auto* counter = reinterpret_cast<uint32_t*>(team_.At(team_.rank, team_.layout.drawn));
    const uint64_t pieces = (bytes_ + work_.piece_bytes - 1) / work_.piece_bytes * Ranges();
    return {counter, static_cast<uint32_t>(pieces), work_.blocks * workers};
  }
  // The i-th rank, beginning behind this one, which comes last.
  SL_HD uint32_t Behind(uint32_t i) const { return i + 1 < team_.size ? team_.Peer(i) : team_.rank; }
  SL_HD const uint8_t* From(uint32_t r, uint32_t step) const {
    return reinterpret_cast<const uint8_t*>(table_->places.Send(r)) + work_.from + step * work_.from_step + begin_;
  }
  SL_HD uint8_t* To(uint32_t r, uint32_t step) const {
    return reinterpret_cast<uint8_t*>(table_->places.Recv(r)) + work_.to + step * work_.to_step + begin_;
  }

  // The calling thread's lines of it; true if these places are aligned as what goes there: what is reduced, as all of
  // it.
  SL_HD bool FillTable() const {
    uint32_t shifts = 0;
    for (uint32_t i = block_.thread(); i < team_.size; i += block_.threads()) {
      const uint32_t r = Behind(i);
      if (work_.kind == DirectKind::kPull) {
        table_->from[i] = From(r, r);
        table_->to[i] = To(team_.rank, r);
      } else if (work_.kind == DirectKind::kPush) {
        table_->from[i] = From(team_.rank, r);
        table_->to[i] = To(r, r);
      } else {
        const bool spreads = work_.kind == DirectKind::kSpread;
        table_->from[i] = From(spreads ? static_cast<uint32_t>(work_.giver) : i, 0);
        const uint32_t taker = work_.taker < 0 ? r : static_cast<uint32_t>(work_.taker);
        uint8_t* to = To(taker, 0);
        const bool stands_there = spreads && to == table_->from[i];
        table_->to[i] = stands_there || static_cast<int32_t>(taker) == work_.spared ? nullptr : to;
      }
      const uint8_t* alike = std::is_void_v<F> ? table_->from[i] : From(team_.rank, 0);
      shifts |= ShiftOf(table_->from[i], alike);
      if (table_->to[i] != nullptr) shifts |= ShiftOf(alike, table_->to[i]);
    }
    return shifts == 0;
  }

  const Args& args_;
  const DirectWork& work_;
  const Team& team_;
  const dev::Block block_;
  DirectTable* const table_;
  uint64_t begin_ = 0;  // of this block's share, or of all that is drawn
  uint64_t bytes_;
};

// True when the operation is over, done or given up; false when it must go on in rounds.
template <typename F>
SL_HD bool RunDirect(const LongArgs& args, const dev::Block& block, DirectTable* table) {
  if (args.direct.kind == DirectKind::kNone) return false;
  const Team& team = args.args.team;
  const Meeting meeting(team, block);
  const Outcome outcome = meeting.Begin(args.reach, &table->places);
  if (outcome == Outcome::kInReach) {
    const Direct<F> direct(args, block, table);
    direct.Run();
    team.LetNextIn(Trigger::kSent);  // all peers have met
    meeting.End(direct.StoresToPeers());
    team.LetNextIn(Trigger::kHeard);
  }
  return outcome != Outcome::kOutOfReach;
}

}  // namespace sl::algo_symmetric::kernels

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
//   pairs   one range with every rank: loaded from the peers (pull) or stored to them (push)
//
// In place: a location of a buffer that is read and written is read and written by one thread of one rank alone, which
// has loaded what it reduces before it stores, or is not written at all. An all-to-all in place would not be so: its
// ranks say that they are out of reach.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/meeting.h"
#include "modules/algo-symmetric/kernels/move.h"
#include "modules/algo-symmetric/kernels/spread.h"

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
  uint64_t from_step;    // pull, push: more for each rank
  uint64_t to;           // and in receive buffers
  uint64_t to_step;
};

// A collective that may take rounds: how, and what to do instead if all buffers are in reach.
struct LongArgs {
  Args args;
  DirectWork direct;
  Reach reach;
};

// What a block keeps in shared memory.
struct DirectTable {
  Places places;
  const uint8_t* from[kReachRanks];  // reduce: in rank order; spread: the first; pairs: beginning behind the rank
  uint8_t* to[kReachRanks];          // beginning behind the rank; NULL: not there
};

// What Direct<F> reduces.
struct DirectOperands {
  const DirectTable& table;
  uint64_t bytes;
  uint32_t size;
  uint32_t takers;
  uint32_t average_over;
  bool all_aligned;

  SL_HD bool aligned() const { return all_aligned; }
  SL_HD dev::Vec16 Load(uint32_t r, uint32_t i) const {
    return dev::LoadPeer(table.from[r] + uint64_t{i} * kVectorBytes);
  }
  SL_HD void Keep(uint32_t i, const dev::Vec16& result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::Store(table.to[t] + uint64_t{i} * kVectorBytes, result);
  }
  template <typename Lane>
  SL_HD Lane LoadElement(uint32_t r, uint64_t at) const {
    return dev::LoadElement<Lane>(table.from[r] + at);
  }
  template <typename Lane>
  SL_HD void KeepElement(uint64_t at, Lane result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::StoreElement(table.to[t] + at, result);
  }
};

template <typename F>
SL_APART SL_HD void ReduceDirect(const dev::Block block, const DirectOperands in, sl_reduction_t reduction) {
  Reduce<F>(block, in, reduction);
}

// F as in Staged.
template <typename F>
class Direct {
 public:
  SL_HD Direct(const LongArgs& args, const dev::Block& block, DirectTable* table)
      : args_(args.args), work_(args.direct), team_(args.args.team), block_(block), table_(table) {
    begin_ = block.index * work_.share_bytes;
    const uint64_t left = begin_ < work_.bytes ? work_.bytes - begin_ : 0;
    bytes_ = left < work_.share_bytes ? left : work_.share_bytes;
  }

  // Once the places are known.
  SL_HD void Run() const {
    if (bytes_ == 0) return;
    FillTable();
    block_.Sync();
    if constexpr (std::is_void_v<F>) {
      if (work_.kind == DirectKind::kSpread) {
        const uint32_t takers = Takers();
        if (takers == 1 && table_->to[0] == nullptr) return;  // a root in place
        const uint32_t bits = Bits(table_->from[0]) | ToBits(takers);
        SpreadBytes(block_, {table_->from[0], table_->to, takers}, bytes_, bits);
      } else {
        RunPairs();
      }
    } else {
      const uint32_t takers = Takers();
      const bool aligned = (FromBits() | ToBits(takers)) % kVectorBytes == 0;
      const DirectOperands in{*table_, bytes_, team_.size, takers, args_.AverageOver(), aligned};
      ReduceDirect<F>(block_, in, args_.reduction);
    }
  }

 private:
  SL_HD static uint32_t Bits(const void* address) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address) % kVectorBytes);
  }
  SL_HD uint32_t FromBits() const {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < team_.size; ++i) bits |= Bits(table_->from[i]);
    return bits;
  }
  SL_HD uint32_t ToBits(uint32_t takers) const {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < takers; ++i) bits |= Bits(table_->to[i]);
    return bits;
  }
  SL_HD uint32_t Takers() const { return work_.taker < 0 ? team_.size : 1; }

  // The i-th rank, beginning behind this one, which comes last.
  SL_HD uint32_t Behind(uint32_t i) const { return i + 1 < team_.size ? team_.Peer(i) : team_.rank; }
  SL_HD const uint8_t* From(uint32_t r, uint32_t step) const {
    return reinterpret_cast<const uint8_t*>(table_->places.Send(r)) + work_.from + step * work_.from_step + begin_;
  }
  SL_HD uint8_t* To(uint32_t r, uint32_t step) const {
    return reinterpret_cast<uint8_t*>(table_->places.Recv(r)) + work_.to + step * work_.to_step + begin_;
  }

  SL_HD void FillTable() const {
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
    }
  }

  // Blocks begin with different ranks, so that at any time a rank deals with many, many deal with it, and what it
  // copies within its own memory does not leave the wire idle.
  SL_HD void RunPairs() const {
    for (uint32_t i = 0; i < team_.size; ++i) {
      const uint32_t k = (i + block_.index) % team_.size;
      if (table_->from[k] == table_->to[k]) continue;
      const uint32_t bits = Bits(table_->from[k]) | Bits(table_->to[k]);
      SpreadBytes(block_, {table_->from[k], &table_->to[k], 1}, bytes_, bits);
    }
  }

  const Args& args_;
  const DirectWork& work_;
  const Team& team_;
  const dev::Block block_;
  DirectTable* const table_;
  uint64_t begin_;  // of this block's share
  uint64_t bytes_;
};

// True when the operation is over, done or given up; false when it must go on in rounds.
template <typename F>
SL_HD bool RunDirect(const LongArgs& args, const dev::Block& block, DirectTable* table) {
  if (args.direct.kind == DirectKind::kNone) return false;
  const Meeting meeting(args.args.team, block);
  const Outcome outcome = meeting.Begin(args.reach, &table->places);
  if (outcome == Outcome::kInReach) {
    Direct<F>(args, block, table).Run();
    meeting.End();
  }
  return outcome != Outcome::kOutOfReach;
}

}  // namespace sl::algo_symmetric::kernels

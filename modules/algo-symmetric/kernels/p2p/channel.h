// SPDX-License-Identifier: Apache-2.0
//
// One channel of a queue of messages between two ranks: its counters, and its inbox, kInboxSlots slots in the
// receiver's slice, through which messages go in chunks.
//
// Counters count since the lane began, have one writer, only grow, and lie in the slice of who waits for them. Those of
// the inbox count chunks:
//   arrived  R4 pairs with A4: the sender's chunk stands in its slot
//   credit   R5 pairs with A5: the receiver has copied the chunk out, so the sender may reuse its slot
// The argument is that of staged.h: Block::Sync before the one thread that releases, and after the one that acquires.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/move.h"

namespace sl::algo_symmetric::kernels {

// One end of a channel. All threads of `block` make the same calls.
class Channel {
 public:
  SL_HD Channel(const Team& team, const dev::Block& block, uint32_t peer, uint32_t channel)
      : team_(team), block_(block), peer_(peer), channel_(channel) {}

  // The channel's place in a table [rank][channel], where it is one with `other`.
  SL_HD uint32_t Index(uint32_t other) const { return other * team_.layout.channels + channel_; }

  // Until the peer has counted to `value`; false when the wait was ended.
  SL_HD bool Await(uint64_t table, uint64_t value, uint32_t step) const {  // A4, A5, A9
    const dev::Wanted wanted{static_cast<int32_t>(peer_), step, value};
    const uint64_t* word = Word(team_.rank, table, peer_);
    return team_.HasCome(block_, block_.thread() == 0 && !dev::AwaitAtLeast(word, wanted, team_.warden));
  }
  SL_HD void Signal(uint64_t table, uint64_t value) const {  // R4, R5, R9
    block_.Sync();
    if (block_.thread() != 0) return;
    dev::Dawdle(team_.warden.dawdle_ns);
    dev::StoreRelease(Word(peer_, table, team_.rank), value);
  }

  // A message through the inbox; `chunk` counts. False when a wait was ended.
  SL_HD bool Relay(bool receives, uint8_t* user, uint64_t bytes, uint64_t* chunk) const {
    for (uint64_t at = 0; at < bytes; at += kChunkBytes, ++*chunk) {
      const auto length = static_cast<uint32_t>(bytes - at < kChunkBytes ? bytes - at : kChunkBytes);
      if (!(receives ? Pull(user + at, length, *chunk) : Push(user + at, length, *chunk))) return false;
    }
    return true;
  }

 private:
  SL_HD uint64_t* Word(uint32_t r, uint64_t table, uint32_t other) const {
    return reinterpret_cast<uint64_t*>(team_.At(r, table)) + Index(other);
  }
  // Slot of a chunk from `source` in rank r's slice.
  SL_HD uint8_t* Slot(uint32_t r, uint32_t source, uint64_t chunk) const {
    const uint64_t inbox = static_cast<uint64_t>(team_.Behind(r, source)) * team_.layout.channels + channel_;
    return team_.At(r, team_.layout.inbox) + (inbox * kInboxSlots + chunk % kInboxSlots) * kChunkBytes;
  }
  SL_HD bool Push(const uint8_t* from, uint32_t bytes, uint64_t chunk) const {
    if (chunk >= kInboxSlots && !Await(team_.layout.credit, chunk + 1 - kInboxSlots, kStepCredit)) return false;
    const Range range{from, Slot(peer_, team_.rank, chunk), bytes};
    MoveRanges(block_, 1, bytes, dev::IsAligned(from, kVectorBytes), FromUser{}, [&](uint32_t) { return range; });
    Signal(team_.layout.arrived, chunk + 1);
    return true;
  }
  SL_HD bool Pull(uint8_t* to, uint32_t bytes, uint64_t chunk) const {
    if (!Await(team_.layout.arrived, chunk + 1, kStepArrived)) return false;
    const Range range{Slot(team_.rank, peer_, chunk), to, bytes};
    MoveRanges(block_, 1, bytes, dev::IsAligned(to, kVectorBytes), FromPeer{}, [&](uint32_t) { return range; });
    Signal(team_.layout.credit, chunk + 1);
    return true;
  }

  const Team& team_;
  const dev::Block block_;
  const uint32_t peer_;
  const uint32_t channel_;
};

}  // namespace sl::algo_symmetric::kernels

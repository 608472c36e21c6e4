// SPDX-License-Identifier: Apache-2.0
//
// A ring of mail: what a rank sends another goes round places in the receiver's slice, and the sender must not write
// where the receiver has still to read.
//
// Units are numbered since the lane began; number u lies at place u % places. A batch is half a ring at most, and both
// ends know where each one begins.
//
//   room  R10 pairs with A10: the receiver has read so many units, and made blank those that need it; the sender may
//         write where they were. Its threads have done so before Block::Sync, one of them releases after it; or they
//         did in an earlier launch, whose end orders that before all that this one does. Each thread of the sender
//         acquires before it stores. The scope is the system, since the peer is another GPU.
//
// Room is told before a batch is waited for, where half a ring has been read that was not told of; not behind the last
// one, when a fence would keep the launch from ending. So a sender that waits for room, when the receiver has come to
// the same batch, has been told of all but less than half a ring; the rest holds the batch. It waits for a launch that
// receives what it sends, and who waits for a packet for one that is sent later in no queue: no cycle.
#pragma once

#include <cstring>

#include "modules/algo-symmetric/kernels/args.h"

namespace sl::algo_symmetric::kernels {

// One end of a ring between this rank and a peer. All threads of `block` make the same calls, but those that say that
// each makes them by itself.
class MailRing {
 public:
  // `kept`: this end's count, from launch to launch. `table`: where every rank has a word for each of so many `rings`
  // with each other rank.
  SL_HD MailRing(const Team& team, const dev::Block& block, uint32_t peer, MailCount* kept, uint64_t table,
                 uint32_t rings, uint32_t ring, uint32_t places)
      : team_(team),
        block_(block),
        peer_(peer),
        kept_(kept),
        table_(table),
        rings_(rings),
        ring_(ring),
        places_(places) {}

  // First of all, by each thread by itself; behind loads that are to be under way meanwhile.
  SL_HD void Open() {
    if (is_open_) return;
    const dev::Vec16 kept = dev::LoadOwn<sizeof(MailCount)>(reinterpret_cast<const uint8_t*>(kept_));
    std::memcpy(&count_, &kept, sizeof(count_));
    is_open_ = true;
  }
  // It gave up in an earlier launch.
  SL_HD bool IsEnded() const { return count_.units == kEnded; }
  // Sent, or read.
  SL_HD uint64_t units() const { return count_.units; }
  SL_HD void Advance(uint64_t units) { count_.units = units; }

  // Sending: until the receiver has read all that lies where the units before `end` go. False when the wait was ended.
  // Each thread by itself.
  SL_HD bool AwaitRoom(uint64_t end) {  // A10
    if (end <= count_.room + places_) return true;
    const uint64_t* word = Word(team_.rank, peer_);
    count_.room = dev::LoadAcquire(word);
    if (end <= count_.room + places_) return true;
    const dev::Wanted wanted{static_cast<int32_t>(peer_), kStepRoom, end - places_};
    if (!dev::AwaitAtLeast(word, wanted, team_.warden)) return false;
    count_.room = wanted.value;
    return true;
  }

  // Receiving: before a batch is waited for.
  SL_HD void TellRoom() {  // R10
    if (count_.units - count_.room < places_ / 2) return;
    count_.room = count_.units;
    if (block_.thread() != 0) return;
    dev::Dawdle(team_.warden.dawdle_ns);
    uint64_t* word = Word(peer_, team_.rank);
    if (has_read_) {
      dev::StoreRelease(word, count_.room);
    } else {
      dev::StoreNote(word, count_.room);  // without a fence: earlier launches are over
    }
  }

  // Receiving: behind a Sync, once the units before `end` have been read.
  SL_HD void HaveRead(uint64_t end) {
    count_.units = end;
    has_read_ = true;
  }

  // Behind a message, and a Sync: until then all threads look up what is kept. Returns whether it is done.
  SL_HD bool Close(bool done) {
    if (!done) count_ = {kEnded, kEnded};
    if (block_.thread() == 0) *kept_ = count_;
    return done;
  }

 private:
  SL_HD uint64_t* Word(uint32_t r, uint32_t other) const {
    return reinterpret_cast<uint64_t*>(team_.At(r, table_)) + other * rings_ + ring_;
  }

  const Team& team_;
  const dev::Block block_;
  const uint32_t peer_;
  MailCount* const kept_;
  const uint64_t table_;
  const uint32_t rings_;
  const uint32_t ring_;
  const uint32_t places_;
  MailCount count_{};  // `room` of who sends may differ from thread to thread
  bool is_open_ = false;
  bool has_read_ = false;  // in this launch
};

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Mail: short messages between two ranks as packets that are all data (lamport_packet.h), one hop and no fence on the
// way. A channel's packets to a peer go round a ring in the receiver's slice.
//
// A message goes in batches. Units are numbered since the lane began; number u lies at place u % kMailUnits, and a
// batch begins at a multiple of a warp's units and does not wrap. Both ends know the lengths of all messages, hence
// where each batch begins. Who reads a packet makes it blank, so that what is not blank at a place was sent there
// since.
//
//   room  R10 pairs with A10: the receiver has made so many units blank, and the sender may write where they were. Its
//         threads have stored the blanks before Block::Sync, one of them releases after it; or they did in an earlier
//         launch, whose end orders them before all that this one does. Each thread of the sender acquires before it
//         stores. The scope is the system, since the peer is another GPU.
//
// Room is told before a batch is waited for, where half a ring is blank that was not told of; not behind the last one,
// when a fence would keep the launch from ending. A batch is half a ring at most. So a sender that waits for room, when
// the receiver has come to the same batch, has been told of all but less than half a ring; the rest holds the batch. It
// waits for a launch that receives what it sends, and who waits for a packet for one that is sent later in no queue: no
// cycle.
#pragma once

#include "modules/algo-symmetric/kernels/packet_data.h"
#include "modules/algo-symmetric/kernels/packet_format.h"

namespace sl::algo_symmetric::kernels {

// One direction of one channel between this rank and a peer. All threads of `block` make the same calls.
class Mail {
 public:
  SL_HD Mail(const Team& team, const dev::Block& block, uint32_t peer, uint32_t channel, const MailCount& count)
      : team_(team), block_(block), peer_(peer), channel_(channel), count_(count) {}

  SL_HD const MailCount& count() const { return count_; }

  // Returns once the packets are on their way. False when the wait for room was ended.
  SL_HD bool Send(const uint8_t* from, uint64_t bytes) {
    bool given_up = false;
    for (uint64_t at = 0; at < bytes; at += kBatchBytes) {
      const auto batch = static_cast<uint32_t>(Least(bytes - at, kBatchBytes));
      const uint32_t packets = PacketsOf(batch);
      const uint32_t units = Unit::Count(packets);
      for (uint32_t i = block_.thread(); i < units && !given_up; i += block_.threads()) {
        const Unit unit{i, packets};
        Data data[kUnit] = {};
        LoadUnit<Ends::kApartUnlessWords>(from + at, batch, unit, data);  // meanwhile the count comes
        const uint64_t begin = BeginOf(units);
        given_up = IsEnded() || !AwaitRoom(begin + units);
        dev::Dawdle(team_.warden.dawdle_ns);
        if (!given_up) LamportFormat::Store(InboxAt(peer_, team_.rank, begin), unit, data, 0);
      }
      count_.units = BeginOf(units) + units;
    }
    return !block_.SyncAny(given_up);
  }

  // False when the wait was ended.
  SL_HD bool Receive(uint8_t* to, uint64_t bytes) {
    if (IsEnded()) return false;
    for (uint64_t at = 0; at < bytes; at += kBatchBytes) {
      const auto batch = static_cast<uint32_t>(Least(bytes - at, kBatchBytes));
      const uint32_t packets = PacketsOf(batch);
      const uint32_t units = Unit::Count(packets);
      count_.units = BeginOf(units);
      TellRoom();
      bool given_up = false;
      for (uint32_t i = block_.thread(); i < units && !given_up; i += block_.threads()) {
        given_up = !Take({i, packets}, to + at, batch);
      }
      if (block_.SyncAny(given_up)) return false;
      count_.units += units;
      has_read_ = true;
    }
    return true;
  }

 private:
  using Data = LamportFormat::Data;
  using Unit = LamportFormat::Unit;
  static constexpr uint32_t kUnit = LamportFormat::kUnit;
  static constexpr uint64_t kBatchBytes = kMailBatchBytes;
  static_assert(Unit::Count(kBatchBytes / sizeof(Data)) == kMailUnits / 2 && kMailUnits % Unit::kWarp == 0);

  SL_HD static uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }
  SL_HD static uint32_t PacketsOf(uint32_t bytes) { return (bytes + sizeof(Data) - 1) / sizeof(Data); }

  // It gave up in an earlier launch.
  SL_HD bool IsEnded() const { return count_.units == kEnded; }
  // Where a batch begins that follows what was counted.
  SL_HD uint64_t BeginOf(uint32_t units) const {
    const uint64_t begin = (count_.units + Unit::kWarp - 1) / Unit::kWarp * Unit::kWarp;
    const uint64_t place = begin % kMailUnits;
    return place + units <= kMailUnits ? begin : begin + kMailUnits - place;
  }
  SL_HD uint64_t* RoomWord(uint32_t r, uint32_t other) const {
    return reinterpret_cast<uint64_t*>(team_.At(r, team_.layout.room)) + other * team_.layout.channels + channel_;
  }
  // What `source` sends from unit `begin` on, in rank r's slice.
  SL_HD LamportFormat::Inbox InboxAt(uint32_t r, uint32_t source, uint64_t begin) const {
    const uint64_t channel = static_cast<uint64_t>(team_.Behind(r, source)) * team_.layout.channels + channel_;
    const uint64_t unit = channel * kMailUnits + begin % kMailUnits;
    return {reinterpret_cast<dev::LamportPacket*>(team_.At(r, team_.layout.mail)) + unit * kUnit,
            reinterpret_cast<uint64_t*>(team_.At(r, team_.layout.mail_notes)) + unit};
  }

  // Until the receiver has made blank all that lies where the units before `end` go. Each thread by itself.
  SL_HD bool AwaitRoom(uint64_t end) {  // A10
    if (end <= count_.room + kMailUnits) return true;
    const uint64_t* word = RoomWord(team_.rank, peer_);
    count_.room = dev::LoadAcquire(word);
    if (end <= count_.room + kMailUnits) return true;
    const dev::Wanted wanted{static_cast<int32_t>(peer_), kStepRoom, end - kMailUnits};
    if (!dev::AwaitAtLeast(word, wanted, team_.warden)) return false;
    count_.room = wanted.value;
    return true;
  }

  SL_HD void TellRoom() {  // R10
    if (count_.units - count_.room < kMailUnits / 2) return;
    count_.room = count_.units;
    if (block_.thread() != 0) return;
    dev::Dawdle(team_.warden.dawdle_ns);
    uint64_t* word = RoomWord(peer_, team_.rank);
    if (has_read_) {
      dev::StoreRelease(word, count_.room);
    } else {
      dev::StoreNote(word, count_.room);  // without a fence: earlier launches are over
    }
  }

  SL_HD bool Take(const Unit& unit, uint8_t* to, uint32_t bytes) const {
    const LamportFormat::Inbox inbox = InboxAt(team_.rank, peer_, count_.units);
    Data data[kUnit];
    dev::Vigil vigil(team_.warden);
    uint32_t seen = 0;
    while (!LamportFormat::Poll(inbox, unit, 0, data, &seen)) {
      if (vigil.GivesUp({static_cast<int32_t>(peer_), kStepMail, count_.units + unit.number}, seen)) return false;
    }
    LamportFormat::MakeBlank(inbox, unit);
    dev::Dawdle(team_.warden.dawdle_ns);
    StoreUnit<Ends::kApartUnlessWords>(to, bytes, unit, data);
    return true;
  }

  const Team& team_;
  const dev::Block block_;
  const uint32_t peer_;
  const uint32_t channel_;
  MailCount count_;        // `room` of who sends may differ from thread to thread
  bool has_read_ = false;  // in this launch
};

}  // namespace sl::algo_symmetric::kernels

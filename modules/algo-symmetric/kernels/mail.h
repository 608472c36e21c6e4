// SPDX-License-Identifier: Apache-2.0
//
// Mail: short messages between two ranks as packets that carry their own flags (ll_packet.h), one hop and no fence. A
// channel's packets to a peer go round a ring in the receiver's slice.
//
// Packets are numbered since the lane began. Number p lies at place p % kMailPackets and carries its lap,
// p / kMailPackets + 1, as its flag. Places are written in order, each once a lap, so that one holds the flag of this
// lap or of the one before: 32 bits tell these apart for ever, and fresh memory, which holds 0, is before the first.
//
//   room  R10 pairs with A10: the receiver has read so many packets, and the sender may write where they were. The
//         receiver's threads have loaded the packets before Block::Sync, one of them releases after it; each thread of
//         the sender acquires before it stores. The scope is the system, since the peer is another GPU.
//
// A batch is half a ring at most, so that the sender writes one while the receiver reads the other. Who waits for room
// waits for packets sent earlier to be read, and who waits for a packet for one that is sent later in no queue: no
// cycle.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

// One direction of one channel between this rank and a peer. All threads of `block` make the same calls.
class Mail {
 public:
  enum class Way : uint32_t { kOut, kIn };

  SL_HD Mail(const Team& team, const dev::Block& block, Way way, uint32_t peer, uint32_t channel)
      : team_(team),
        block_(block),
        peer_(peer),
        channel_(channel),
        counter_(Word(team.rank, way == Way::kOut ? team.layout.shipped : team.layout.read, peer)),
        count_(*counter_) {}

  // Returns once the packets are on their way. False when the wait for room was ended.
  SL_HD bool Send(const uint8_t* from, uint64_t bytes) {
    bool given_up = false;
    for (uint64_t at = 0; at < bytes; at += kBatchBytes) {
      const auto batch = static_cast<uint32_t>(Least(bytes - at, kBatchBytes));
      const uint32_t packets = PacketsOf(batch);
      for (uint32_t first = block_.thread(); first < packets && !given_up; first += kUnroll * block_.threads()) {
        dev::Vec8 data[kUnroll] = {};
        SL_UNROLL
        for (uint32_t j = 0; j < kUnroll; ++j) {
          const uint32_t i = first + j * block_.threads();
          if (i < packets) data[j] = dev::LoadAny<8>(from + at + i * kPayload, batch - i * kPayload);
        }
        given_up = !AwaitRoom(count_ + packets);
        SL_UNROLL
        for (uint32_t j = 0; j < kUnroll; ++j) {
          const uint32_t i = first + j * block_.threads();
          if (i < packets && !given_up) {
            dev::Dawdle(team_.warden.dawdle_ns);
            dev::StorePacket(Place(peer_, team_.rank, count_ + i), data[j], Lap(count_ + i));
          }
        }
      }
      count_ += packets;
    }
    return !block_.SyncAny(given_up);
  }

  // False when the wait was ended.
  SL_HD bool Receive(uint8_t* to, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += kBatchBytes) {
      const auto batch = static_cast<uint32_t>(Least(bytes - at, kBatchBytes));
      const uint32_t packets = PacketsOf(batch);
      bool given_up = false;
      for (uint32_t first = block_.thread(); first < packets && !given_up; first += kUnroll * block_.threads()) {
        given_up = !Take(first, packets, to + at, batch);
      }
      if (block_.SyncAny(given_up)) return false;
      count_ += packets;
      if (block_.thread() != 0) continue;
      dev::Dawdle(team_.warden.dawdle_ns);
      dev::StoreRelease(Word(peer_, team_.layout.room, team_.rank), count_);  // R10
    }
    return true;
  }

  // Keeps the count for the next launch.
  SL_HD void Close() const {
    block_.Sync();  // all have read it
    if (block_.thread() == 0) *counter_ = count_;
  }

 private:
  static constexpr uint32_t kPayload = sizeof(dev::Vec8);
  static constexpr uint64_t kBatchBytes = uint64_t{kMailPackets / 2} * kPayload;
  static constexpr uint32_t kUnroll = 4;

  SL_HD static uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }
  SL_HD static uint32_t PacketsOf(uint32_t bytes) { return (bytes + kPayload - 1) / kPayload; }
  SL_HD static uint32_t Lap(uint64_t packet) { return static_cast<uint32_t>(packet / kMailPackets + 1); }

  // Word [other][channel] of a table in rank r's slice.
  SL_HD uint64_t* Word(uint32_t r, uint64_t table, uint32_t other) const {
    return reinterpret_cast<uint64_t*>(team_.At(r, table)) + other * team_.layout.channels + channel_;
  }
  // Where a packet of `source` lies in rank r's slice.
  SL_HD dev::LlPacket* Place(uint32_t r, uint32_t source, uint64_t packet) const {
    const uint64_t channel = static_cast<uint64_t>(team_.Behind(r, source)) * team_.layout.channels + channel_;
    return reinterpret_cast<dev::LlPacket*>(team_.At(r, team_.layout.mail)) + channel * kMailPackets +
           packet % kMailPackets;
  }

  // Until the receiver has read all that lies where the packets before `end` go. Each thread by itself.
  SL_HD bool AwaitRoom(uint64_t end) const {  // A10
    if (end <= kMailPackets) return true;
    const uint64_t* word = Word(team_.rank, team_.layout.room, peer_);
    const dev::Wanted wanted{static_cast<int32_t>(peer_), kStepRoom, end - kMailPackets};
    if (dev::LoadAcquire(word) >= wanted.value) return true;
    return dev::AwaitAtLeast(word, wanted, team_.warden);
  }

  // Every kUnroll-th packet, polled together, of those that begin with `first`.
  SL_HD bool Take(uint32_t first, uint32_t packets, uint8_t* to, uint32_t bytes) const {
    dev::Vec8 data[kUnroll] = {};
    uint32_t seen[kUnroll] = {};
    dev::Vigil vigil(team_.warden);
    for (;;) {
      bool is_here[kUnroll];
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) {
        const uint32_t i = first + j * block_.threads();
        is_here[j] = true;
        if (i < packets) {
          is_here[j] = dev::PollPacket(Place(team_.rank, peer_, count_ + i), Lap(count_ + i), &data[j], &seen[j]);
        }
      }
      bool all = true;
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) all = all && is_here[j];
      if (all) break;
      if (vigil.GivesUp({static_cast<int32_t>(peer_), kStepMail, Lap(count_ + first)}, seen[0])) return false;
    }
    dev::Dawdle(team_.warden.dawdle_ns);
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * block_.threads();
      if (i < packets) dev::StoreAny(to + i * kPayload, data[j], bytes - i * kPayload);
    }
    return true;
  }

  const Team& team_;
  const dev::Block block_;
  const uint32_t peer_;
  const uint32_t channel_;
  uint64_t* const counter_;
  uint64_t count_;  // packets sent, or read, so far
};

}  // namespace sl::algo_symmetric::kernels

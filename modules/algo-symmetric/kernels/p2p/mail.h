// SPDX-License-Identifier: Apache-2.0
//
// Mail: messages between two ranks as packets that are all data (lamport_packet.h), one hop and no fence on the way. A
// channel's packets to a peer go round a ring in the receiver's slice (mail_ring.h).
//
// A message goes in batches. A batch begins at a multiple of a warp's units and does not wrap; both ends know the
// lengths of all messages, hence where each batch begins. Who reads a packet makes it blank, so that what is not blank
// at a place was sent there since.
#pragma once

#include "modules/algo-symmetric/kernels/p2p/mail_ring.h"
#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packet_format.h"

namespace sl::algo_symmetric::kernels {

// One direction of one channel between this rank and a peer. All threads of `block` make the same calls.
class Mail {
 public:
  SL_HD Mail(const Team& team, const dev::Block& block, uint32_t peer, uint32_t channel, MailCount* kept)
      : team_(team),
        block_(block),
        ring_(team, block, peer, kept, team.layout.room, team.layout.channels, channel, kMailUnits),
        peer_(peer),
        channel_(channel) {}

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
        LoadUnit<Ends::kApartUnlessWords>(from + at, batch, unit, data);
        ring_.Open();
        const uint64_t begin = BeginOf(units);
        given_up = ring_.IsEnded() || !ring_.AwaitRoom(begin + units);
        dev::Dawdle(team_.warden.dawdle_ns);
        if (!given_up) LamportFormat::Store(InboxAt(peer_, team_.rank, begin), unit, data, 0);
      }
      ring_.Open();
      ring_.Advance(BeginOf(units) + units);
    }
    return ring_.Close(!block_.SyncAny(given_up));
  }

  // False when the wait was ended.
  SL_HD bool Receive(uint8_t* to, uint64_t bytes) {
    ring_.Open();
    if (ring_.IsEnded()) return false;
    bool done = true;
    for (uint64_t at = 0; at < bytes && done; at += kBatchBytes) {
      const auto batch = static_cast<uint32_t>(Least(bytes - at, kBatchBytes));
      const uint32_t packets = PacketsOf(batch);
      const uint32_t units = Unit::Count(packets);
      ring_.Advance(BeginOf(units));
      ring_.TellRoom();
      bool given_up = false;
      for (uint32_t i = block_.thread(); i < units && !given_up; i += block_.threads()) {
        given_up = !Take({i, packets}, to + at, batch);
      }
      done = !block_.SyncAny(given_up);
      ring_.HaveRead(ring_.units() + units);
    }
    return ring_.Close(done);
  }

 private:
  using Data = LamportFormat::Data;
  using Unit = LamportFormat::Unit;
  static constexpr uint32_t kUnit = LamportFormat::kUnit;
  static constexpr uint64_t kBatchBytes = kMailBatchBytes;
  static_assert(Unit::Count(kBatchBytes / sizeof(Data)) == kMailUnits / 2 && kMailUnits % Unit::kWarp == 0);

  SL_HD static uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }
  SL_HD static uint32_t PacketsOf(uint32_t bytes) { return (bytes + sizeof(Data) - 1) / sizeof(Data); }

  // Where a batch begins that follows what was counted.
  SL_HD uint64_t BeginOf(uint32_t units) const {
    const uint64_t begin = (ring_.units() + Unit::kWarp - 1) / Unit::kWarp * Unit::kWarp;
    const uint64_t place = begin % kMailUnits;
    return place + units <= kMailUnits ? begin : begin + kMailUnits - place;
  }
  // What `source` sends from unit `begin` on, in rank r's slice.
  SL_HD LamportFormat::Inbox InboxAt(uint32_t r, uint32_t source, uint64_t begin) const {
    const uint64_t channel = static_cast<uint64_t>(team_.Behind(r, source)) * team_.layout.channels + channel_;
    const uint64_t unit = channel * kMailUnits + begin % kMailUnits;
    return {reinterpret_cast<dev::LamportPacket*>(team_.At(r, team_.layout.mail)) + unit * kUnit,
            reinterpret_cast<uint64_t*>(team_.At(r, team_.layout.mail_notes)) + unit};
  }

  SL_HD bool Take(const Unit& unit, uint8_t* to, uint32_t bytes) const {
    const LamportFormat::Inbox inbox = InboxAt(team_.rank, peer_, ring_.units());
    Data data[kUnit];
    dev::Vigil vigil(team_.warden);
    uint32_t seen = 0;
    while (!LamportFormat::Poll(inbox, unit, 0, data, &seen)) {
      if (vigil.GivesUp({static_cast<int32_t>(peer_), kStepMail, ring_.units() + unit.number}, seen)) return false;
    }
    LamportFormat::MakeBlank(inbox, unit);
    dev::Dawdle(team_.warden.dawdle_ns);
    StoreUnit<Ends::kApartUnlessWords>(to, bytes, unit, data);
    return true;
  }

  const Team& team_;
  const dev::Block block_;
  MailRing ring_;
  const uint32_t peer_;
  const uint32_t channel_;
};

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Short mail: messages as packets that carry their flag (ll_packet.h), one hop and no fence on the way. A channel's
// packets to a peer go round a ring in the receiver's slice (mail_ring.h); a flag is which time round it is, so that
// nobody makes anything blank.
//
// Flags repeat after 2^32 times round the ring. Every place is written each time, so what stands at one carries the
// flag before; or none, 0, in fresh memory, the first time round, whose flag is 1.
#pragma once

#include "modules/algo-symmetric/kernels/p2p/mail_ring.h"
#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"
#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packet_format.h"

namespace sl::algo_symmetric::kernels {

// One direction of one channel between this rank and a peer. All threads of `block` make the same calls.
class ShortMail {
 public:
  SL_HD ShortMail(const Team& team, const dev::Block& block, uint32_t peer, uint32_t channel, TaskKind kind)
      : team_(team),
        block_(block),
        ring_(team, block, peer, Kept(team, peer, channel, kind), team.layout.short_room, team.layout.short_channels,
              channel, kShortPackets),
        peer_(peer),
        channel_(channel) {}

  // Returns once the packets are on their way. False when the wait for room was ended.
  SL_HD bool Send(const uint8_t* from, uint32_t bytes) {
    const uint32_t packets = PacketsOf(bytes);
    dev::LlPacket* places = PlacesAt(peer_, team_.rank);
    bool given_up = false;
    for (uint32_t i = block_.thread(); i < packets && !given_up; i += block_.threads()) {
      Data data[1] = {};
      LoadUnit<Ends::kApartUnlessWords>(from, bytes, Unit{i, packets}, data);
      ring_.Open();
      given_up = ring_.IsEnded() || !ring_.AwaitRoom(ring_.units() + packets);
      dev::Dawdle(team_.warden.dawdle_ns);
      if (!given_up) dev::StorePacket(places + Place(i), data[0], Flag(i));
    }
    ring_.Open();
    ring_.Advance(ring_.units() + packets);
    return ring_.Close(!block_.SyncAny(given_up));
  }

  // False when the wait was ended.
  SL_HD bool Receive(uint8_t* to, uint32_t bytes) {
    ring_.Open();
    if (ring_.IsEnded()) return false;
    ring_.TellRoom();
    const uint32_t packets = PacketsOf(bytes);
    const dev::LlPacket* places = PlacesAt(team_.rank, peer_);
    bool given_up = false;
    for (uint32_t i = block_.thread(); i < packets && !given_up; i += block_.threads()) {
      Data data[1];
      given_up = !Await(places + Place(i), i, &data[0]);
      if (!given_up) StoreUnit<Ends::kApartUnlessWords>(to, bytes, Unit{i, packets}, data);
    }
    const bool done = !block_.SyncAny(given_up);
    ring_.HaveRead(ring_.units() + packets);
    return ring_.Close(done);
  }

 private:
  using Data = LlFormat::Data;
  using Unit = LlFormat::Unit;
  static constexpr uint32_t kPacket = sizeof(Data);
  static_assert(kShortBytesOfChannel / kPacket <= kShortPackets / 2);

  SL_HD static uint32_t PacketsOf(uint32_t bytes) { return (bytes + kPacket - 1) / kPacket; }
  SL_HD uint32_t Place(uint32_t i) const { return (static_cast<uint32_t>(ring_.units()) + i) % kShortPackets; }
  SL_HD uint32_t Flag(uint32_t i) const { return static_cast<uint32_t>((ring_.units() + i) / kShortPackets) + 1; }

  SL_HD static MailCount* Kept(const Team& team, uint32_t peer, uint32_t channel, TaskKind kind) {
    const uint64_t table = kind == TaskKind::kReceive ? team.layout.short_received : team.layout.short_sent;
    return reinterpret_cast<MailCount*>(team.At(team.rank, table)) + peer * team.layout.short_channels + channel;
  }
  // Where packets of `source` go, in rank r's slice.
  SL_HD dev::LlPacket* PlacesAt(uint32_t r, uint32_t source) const {
    return reinterpret_cast<dev::LlPacket*>(team_.At(r, team_.layout.short_mail)) +
           (team_.Behind(r, source) * team_.layout.short_channels + channel_) * kShortPackets;
  }

  SL_HD bool Await(const dev::LlPacket* packet, uint32_t i, Data* data) const {
    dev::Vigil vigil(team_.warden);
    uint32_t seen = 0;
    while (!dev::PollPacket(packet, Flag(i), data, &seen)) {
      if (vigil.GivesUp({static_cast<int32_t>(peer_), kStepMail, ring_.units() + i}, seen)) return false;
    }
    dev::Dawdle(team_.warden.dawdle_ns);
    return true;
  }

  const Team& team_;
  const dev::Block block_;
  MailRing ring_;
  const uint32_t peer_;
  const uint32_t channel_;
};

}  // namespace sl::algo_symmetric::kernels

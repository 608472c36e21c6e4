// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of packets, alike but for what says that they have come. Those of ll_packet.h carry their epoch, and are
// half data; those of lamport_packet.h are all data. The latter go in units of four, which a thread sends and takes
// together, with a note of one word: 1, and above it two bits for each packet, which of its halves are the mask.
//
// A unit's packets lie 32 apart, so that a warp moves 512 bytes in a row at a time.
//
// What is all data, and notes, are made blank by the thread that has read them. The sender stores there again two
// epochs later, which it begins after this rank's launch of the epoch between, hence after the end of the kernel that
// made them blank (one_shot.h).
#pragma once

#include "modules/algo-symmetric/kernels/args.h"

namespace sl::algo_symmetric::kernels {

// One of the units that `packets` packets make.
template <uint32_t kPackets>
struct PacketUnit {
  static constexpr uint32_t kWarp = 32;  // from one packet of a unit to the next
  uint32_t number;
  uint32_t packets;

  SL_HD static constexpr uint32_t Count(uint32_t packets) {
    const uint32_t rest = packets % (kWarp * kPackets);
    return packets / (kWarp * kPackets) * kWarp + (rest < kWarp ? rest : kWarp);
  }
  SL_HD uint32_t First() const { return number / kWarp * (kWarp * kPackets) + number % kWarp; }
  // The k-th of this one, which need not exist.
  SL_HD uint32_t Packet(uint32_t k) const { return First() + k * kWarp; }
  SL_HD bool Has(uint32_t k) const { return Packet(k) < packets; }
  // The packet at a place of `count` units from `first` on, whose k-th packets lie side by side. A division would take
  // longer than what else is done with it.
  SL_HD static uint32_t PacketAt(uint32_t place, uint32_t first, uint32_t count) {
    uint32_t k = 0;
    SL_UNROLL
    for (uint32_t i = 1; i < kPackets; ++i) k += place >= i * count ? 1 : 0;
    return PacketUnit{first + place - k * count, 0}.Packet(k);
  }
};

struct LlFormat {
  using Data = dev::Vec8;
  using Unit = PacketUnit<1>;
  static constexpr uint32_t kUnit = 1;
  static constexpr bool kMakesBlank = false;
  // Of a block, from one sender, in one epoch.
  using Inbox = dev::LlPacket*;

  SL_HD static Inbox InboxOf(const Team& team, uint32_t r, uint32_t shot, uint32_t epoch, uint32_t block,
                             uint32_t sender) {
    return team.Packets(r, shot, epoch, block, sender);
  }
  SL_HD static void Store(Inbox inbox, const Unit& unit, const Data (&data)[kUnit], uint32_t epoch) {
    dev::StorePacket(inbox + unit.number, data[0], epoch);
  }
  SL_HD static bool Poll(Inbox inbox, const Unit& unit, uint32_t epoch, Data (&data)[kUnit], uint32_t* seen) {
    return dev::PollPacket(inbox + unit.number, epoch, &data[0], seen);
  }
  SL_HD static void MakeBlank(Inbox, const Unit&) {}
};

struct LamportFormat {
  using Data = dev::Vec16;
  static constexpr uint32_t kUnit = kLamportUnit;
  static constexpr bool kMakesBlank = true;
  using Unit = PacketUnit<kUnit>;
  struct Inbox {
    dev::LamportPacket* packets;
    uint64_t* notes;
  };

  SL_HD static Inbox InboxOf(const Team& team, uint32_t r, uint32_t shot, uint32_t epoch, uint32_t block,
                             uint32_t sender) {
    const uint64_t place = Team::Inbox(shot, epoch, block, team.Behind(r, sender), team.size - 1);
    return {
        reinterpret_cast<dev::LamportPacket*>(team.At(r, team.layout.lamport)) + place * team.layout.lamport_per_block,
        reinterpret_cast<uint64_t*>(team.At(r, team.layout.notes)) + place * (team.layout.lamport_per_block / kUnit)};
  }
  SL_HD static void Store(const Inbox& inbox, const Unit& unit, const Data (&data)[kUnit], uint32_t) {
    dev::LamportPacket* packets = inbox.packets + unit.First();
    uint32_t note = 1;
    SL_UNROLL
    for (uint32_t k = 0; k < kUnit; ++k) {
      if (unit.Has(k)) note |= dev::StoreLamport(packets + k * Unit::kWarp, data[k]) << (1 + 2 * k);
    }
    dev::StoreNote(inbox.notes + unit.number, note);
  }
  // True when all of the unit is there.
  SL_HD static bool Poll(const Inbox& inbox, const Unit& unit, uint32_t, Data (&data)[kUnit], uint32_t* seen) {
    const dev::LamportPacket* packets = inbox.packets + unit.First();
    dev::LamportPacket looks[kUnit];
    SL_UNROLL
    for (uint32_t k = 0; k < kUnit; ++k) {
      looks[k] = {{1, 1}};
      if (unit.Has(k)) dev::LookAtLamport(packets + k * Unit::kWarp, &looks[k]);
    }
    const uint64_t note = dev::Poll(inbox.notes + unit.number);
    *seen = static_cast<uint32_t>(note);
    bool all = note != 0;
    SL_UNROLL
    for (uint32_t k = 0; k < kUnit; ++k) {
      all = all && dev::IsThere(looks[k]);
      data[k] = dev::DataOf(looks[k], *seen >> (1 + 2 * k) & 3);
    }
    return all;
  }
  SL_HD static void MakeBlank(const Inbox& inbox, const Unit& unit) {
    dev::LamportPacket* packets = inbox.packets + unit.First();
    SL_UNROLL
    for (uint32_t k = 0; k < kUnit; ++k) {
      if (unit.Has(k)) dev::MakeBlank(packets + k * Unit::kWarp);
    }
    dev::StoreNote(inbox.notes + unit.number, 0);
  }
};

}  // namespace sl::algo_symmetric::kernels

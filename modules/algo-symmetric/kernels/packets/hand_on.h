// SPDX-License-Identifier: Apache-2.0
//
// A broadcast by packets in two shots. First shot: the root pushes to each peer one block of what it has. Second shot:
// every peer hands its block on to the other peers. Two hops, no barrier, no fence, and the root sends everything once.
//
// Epochs, slots and stamps are those of two_shot.h. A peer hands on before it has heard from all: what makes a slot
// safe to reuse is that its last launch ended, and there it had.
#pragma once

#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packets.h"

namespace sl::algo_symmetric::kernels {

// F is void: nothing is computed.
template <typename F, typename Format>
class HandOnPackets {
 public:
  using Data = typename Format::Data;

  SL_HD HandOnPackets(const Args& args, const dev::Block& block, Data* /*shared*/)
      : args_(args),
        team_(args.team),
        box_(args.team, block),
        block_(block),
        root_(static_cast<uint32_t>(args.giver)),
        begin_(block.index * args.packets.share_bytes),
        units_(args.packets.share_units) {}

  SL_HD void Run() {
    Push();
    if (!box_.Begin()) return;
    box_.PrepareToClose();
    if (!HandOn() || !TakeResults()) return box_.End();
    box_.Close();
  }

 private:
  using Unit = typename Format::Unit;
  static constexpr uint32_t kPayload = sizeof(Data);
  static constexpr uint32_t kUnit = Format::kUnit;

  SL_HD bool IsRoot() const { return team_.rank == root_; }
  // The block that a peer of the root hands on.
  SL_HD uint32_t BlockOf(uint32_t r) const { return r < root_ ? r : r - 1; }
  // Of it, this CUDA block's bytes.
  SL_HD uint32_t Bytes(uint32_t r) const { return args_.packets.ShareOf(BlockOf(r), begin_); }
  SL_HD uint32_t Offset(uint32_t r) const { return BlockOf(r) * args_.packets.block_bytes + begin_; }
  SL_HD uint32_t Packets(uint32_t r) const { return (Bytes(r) + kPayload - 1) / kPayload; }
  // A unit of what `from` sends `to` first: one empty packet at least.
  SL_HD Unit UnitOf(uint32_t number, uint32_t from, uint32_t to) const {
    const uint32_t packets = from == root_ ? Packets(to) : 0;
    return {number, packets != 0 ? packets : 1};
  }
  SL_HD void Keep(uint32_t r, const Unit& unit, const Data (&data)[kUnit]) const {
    StoreUnit<Ends::kApart>(args_.recv + Offset(r), Bytes(r), unit, data);
  }
  // Calls with every peer, and every number that a unit of a share may have.
  template <typename Call>
  SL_HD void EachUnit(const Call& call) const {
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * units_; at += block_.threads()) {
      const auto [i, number] = args_.packets.TurnOf(at, units_);
      if (!call(team_.Peer(i), number)) return;
    }
  }

  SL_HD void Push() {
    EachUnit([&](uint32_t peer, uint32_t number) {
      const Unit unit = UnitOf(number, team_.rank, peer);
      if (!unit.Has(0)) return true;
      Data data[kUnit] = {};
      if (IsRoot()) LoadUnit<Ends::kApart>(args_.send + Offset(peer), Bytes(peer), unit, data);
      if (!box_.Begin()) return false;
      box_.Push(0, peer, unit, data);
      if (IsRoot() && args_.recv != args_.send) Keep(peer, unit, data);
      return true;
    });
  }

  SL_HD bool HandOn() const {
    bool given_up = false;
    EachUnit([&](uint32_t from, uint32_t number) {
      const Unit unit = UnitOf(number, from, team_.rank);
      if (!unit.Has(0)) return true;
      Data data[kUnit] = {};
      given_up = !box_.Await(0, from, unit, data);
      if (from != root_ || Bytes(team_.rank) == 0) return !given_up;
      for (uint32_t i = 0; i + 1 < team_.size && !given_up; ++i) {
        if (team_.Peer(i) != root_) box_.Push(1, team_.Peer(i), unit, data);
      }
      if (!given_up) Keep(team_.rank, unit, data);
      return !given_up;
    });
    return team_.HasCome(block_, given_up);
  }

  SL_HD bool TakeResults() const {
    bool given_up = false;
    EachUnit([&](uint32_t peer, uint32_t number) {
      const Unit unit{number, IsRoot() || peer == root_ ? 0 : Packets(peer)};
      if (!unit.Has(0)) return true;
      Data data[kUnit] = {};
      given_up = !box_.Await(1, peer, unit, data);
      if (!given_up) Keep(peer, unit, data);
      return !given_up;
    });
    return team_.HasCome(block_, given_up);
  }

  const Args& args_;
  const Team& team_;
  PacketBox<Format> box_;
  const dev::Block block_;
  const uint32_t root_;
  const uint32_t begin_;  // bytes; this block's share of every peer's block
  const uint32_t units_;
};

}  // namespace sl::algo_symmetric::kernels

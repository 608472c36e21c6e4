// SPDX-License-Identifier: Apache-2.0
//
// Two-shot: an all-reduce by packets. First shot: every rank pushes to each peer the block which that peer reduces.
// Second shot: every rank pushes its reduced block to all. Two hops, no barrier, no fence, and each element is reduced
// once.
//
// Epochs, slots and stamps are those of one_shot.h: in the first shot everybody hears from everybody, at least by an
// empty packet, so the second shot's slots are as safe to reuse. Result packets that hold nothing are not sent.
#pragma once

#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packets.h"

namespace sl::algo_symmetric::kernels {

// `shared` holds kSharedBytes.
template <typename F, typename Format>
class TwoShotPackets {
 public:
  using Data = typename Format::Data;

  SL_HD TwoShotPackets(const Args& args, const dev::Block& block, Data* shared)
      : args_(args), team_(args.team), box_(args.team, block), block_(block), shared_(shared) {
    begin_ = block.index * args.packets.share_bytes;
    most_ = args.packets.share_bytes / kPayload;
    units_ = Unit::Count(most_);
    if (args.Scales()) scalar_ = args.Scalar();
  }

  SL_HD void Run() {
    Push();
    if (!box_.Begin()) return;
    box_.PrepareToClose();
    const uint32_t fit = UnitsThatFit<Format>(team_.size);
    const uint32_t own = Unit::Count(AtLeastOne(Packets(team_.rank)));
    for (uint32_t first = 0; first < own; first += fit) {
      const uint32_t count = own - first < fit ? own - first : fit;
      if (!Gather(first, count)) return box_.End();
      Reduce(first, count);
      if constexpr (kUnit != 1) {
        block_.Sync();
        PushResults(first, count);
      }
      if (first + count < own) block_.Sync();
    }
    if (!TakeResults()) return box_.End();
    box_.Close();
  }

 private:
  using Unit = typename Format::Unit;
  static constexpr uint32_t kPayload = sizeof(Data);
  static constexpr uint32_t kUnit = Format::kUnit;

  // Of a pattern block, this CUDA block's bytes.
  SL_HD uint32_t Bytes(uint32_t block) const { return args_.packets.ShareOf(block, begin_); }
  SL_HD uint32_t Offset(uint32_t block) const { return block * args_.packets.block_bytes + begin_; }
  SL_HD uint32_t Packets(uint32_t block) const { return (Bytes(block) + kPayload - 1) / kPayload; }
  SL_HD static uint32_t AtLeastOne(uint32_t packets) { return packets != 0 ? packets : 1; }
  // Of what is sent to who reduces a block.
  SL_HD Unit UnitOf(uint32_t number, uint32_t block) const { return {number, AtLeastOne(Packets(block))}; }

  // Of this rank's contribution to a block.
  SL_HD void LoadOwn(uint32_t block, const Unit& unit, Data (&data)[kUnit]) const {
    LoadUnit<Ends::kApart>(args_.send + Offset(block), Bytes(block), unit, data);
    if (args_.Scales()) ScaleUnit<F>(scalar_, data);
  }
  SL_HD void Keep(uint32_t block, uint32_t i, const Data& data) const {
    StorePacketData(args_.recv + Offset(block) + i * kPayload, data, Bytes(block) - i * kPayload);
  }

  SL_HD void Push() {
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * units_; at += block_.threads()) {
      const auto [i, number] = args_.packets.TurnOf(at, units_);
      const uint32_t peer = team_.Peer(i);
      const Unit unit = UnitOf(number, peer);
      if (!unit.Has(0)) continue;
      Data data[kUnit] = {};
      LoadOwn(peer, unit, data);
      if (!box_.Begin()) return;
      box_.Push(0, peer, unit, data);
    }
  }

  // Of every rank the k-th packets of all units lie side by side.
  SL_HD bool Gather(uint32_t first, uint32_t count) const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < team_.size * count && !given_up; at += block_.threads()) {
      const auto [from, number] = args_.packets.TurnOf(at, count);
      const Unit unit = UnitOf(first + number, team_.rank);
      Data data[kUnit] = {};
      if (from == team_.rank) {
        LoadOwn(from, unit, data);
      } else {
        given_up = !box_.Await(0, from, unit, data);
      }
      SL_UNROLL
      for (uint32_t k = 0; k < kUnit; ++k) shared_[(from * kUnit + k) * count + number] = data[k];
    }
    return team_.HasCome(block_, given_up);
  }

  // Results go out at once, or, where several travel together, take the place of rank 0's contributions.
  SL_HD void Reduce(uint32_t first, uint32_t count) const {
    const uint32_t packets = Packets(team_.rank);
    ReducePackets<F>(block_, shared_, team_.size, count * kUnit, args_.reduction, args_.AverageOver(),
                     [&](uint32_t place, const Data& sum) {
                       const uint32_t i = Unit::PacketAt(place, first, count);
                       if (i >= packets) return;
                       Keep(team_.rank, i, sum);
                       if constexpr (kUnit == 1) {
                         for (uint32_t p = 0; p + 1 < team_.size; ++p) {
                           box_.Push(1, team_.Peer(p), {i, packets}, {sum});
                         }
                       } else {
                         shared_[place] = sum;
                       }
                     });
  }
  SL_HD void PushResults(uint32_t first, uint32_t count) const {
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * count; at += block_.threads()) {
      const auto [i, number] = args_.packets.TurnOf(at, count);
      const Unit unit{first + number, Packets(team_.rank)};
      if (!unit.Has(0)) continue;
      Data sums[kUnit];
      SL_UNROLL
      for (uint32_t k = 0; k < kUnit; ++k) sums[k] = shared_[k * count + number];
      box_.Push(1, team_.Peer(i), unit, sums);
    }
  }

  SL_HD bool TakeResults() const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * units_ && !given_up; at += block_.threads()) {
      const auto [i, number] = args_.packets.TurnOf(at, units_);
      const uint32_t peer = team_.Peer(i);
      const Unit unit{number, Packets(peer)};
      if (!unit.Has(0)) continue;
      Data data[kUnit] = {};
      given_up = !box_.Await(1, peer, unit, data);
      SL_UNROLL
      for (uint32_t k = 0; k < kUnit; ++k) {
        if (unit.Has(k) && !given_up) Keep(peer, unit.Packet(k), data[k]);
      }
    }
    return team_.HasCome(block_, given_up);
  }

  const Args& args_;
  const Team& team_;
  PacketBox<Format> box_;
  const dev::Block block_;
  Data* const shared_;
  uint32_t begin_;  // bytes; this block's share of every pattern block
  uint32_t most_;   // packets of it
  uint32_t units_;
  uint64_t scalar_ = 0;
};

}  // namespace sl::algo_symmetric::kernels

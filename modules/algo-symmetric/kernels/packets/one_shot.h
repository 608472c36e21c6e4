// SPDX-License-Identifier: Apache-2.0
//
// One-shot: every rank pushes to every peer the block that this peer takes, as packets that tell by themselves that
// they have come, and takes what it was sent. One hop, no barrier, no fence (packet_format.h). Who has nothing for a
// peer sends it an empty packet, so that everybody hears from everybody in every epoch.
//
// Slots: epoch e writes into the slot that epoch e - 2 used, at all peers. That is safe: this rank's launch of epoch
// e - 1 ended only when it had heard from every peer p; p sent that after its launch of e - 2 had ended, hence after it
// had read everything of e - 2. Launches of a lane run one after the other, and each reads all its packets.
//
// Stale packets: flags repeat after 2^32 epochs. So every launch stamps one packet of the slot it has just read with
// its own epoch, another one each time: after as many launches as both slots have packets no flag is older than those.
//
// Every block of the grid has its epoch and its packets. How many blocks an operation has follows from its size, so a
// block runs the same epochs on all ranks.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packets.h"

namespace sl::algo_symmetric::kernels {

// F as in Staged. `shared` holds kSharedBytes.
template <typename F, typename Format>
class OneShotPackets {
 public:
  using Data = typename Format::Data;

  SL_HD OneShotPackets(const Args& args, const dev::Block& block, Data* shared)
      : args_(args), team_(args.team), box_(args.team, block), block_(block), shared_(shared) {
    const PacketCut& cut = args.packets;
    begin_ = block.index * cut.share_bytes;
    bytes_ = begin_ < cut.block_bytes ? Least(cut.block_bytes - begin_, cut.share_bytes) : 0;
    packets_ = (bytes_ + kPayload - 1) / kPayload;
    units_ = Unit::Count(packets_ != 0 ? packets_ : 1);
    if (args.Scales()) scalar_ = args.Scalar();
  }

  SL_HD void Run() {
    Push();
    if (!box_.Begin()) return;
    box_.PrepareToClose();
    bool done = true;
    if constexpr (std::is_void_v<F>) {
      done = Take();
    } else {
      done = team_.size == 2 ? ReduceTwo() : ReduceAll();
    }
    if (!done) return box_.End();
    box_.Close();
  }

 private:
  using Unit = typename Format::Unit;
  // Of short messages an end may be all there is; moves of small packets are little code.
  static constexpr Ends kEnds = Format::kUnit != 1  ? Ends::kApart
                                : std::is_void_v<F> ? Ends::kInline
                                                    : Ends::kApartUnlessWords;
  static constexpr uint32_t kPayload = sizeof(Data);
  static constexpr uint32_t kUnit = Format::kUnit;
  SL_HD static uint32_t Least(uint32_t a, uint32_t b) { return a < b ? a : b; }

  // A unit of what `from` sends `to`, which is one empty packet at least.
  SL_HD Unit UnitOf(uint32_t number, uint32_t from, uint32_t to) const {
    return {number, args_.Ships(from, to) && packets_ != 0 ? packets_ : 1};
  }
  SL_HD uint32_t Valid(uint32_t packet) const { return bytes_ - packet * kPayload; }

  // Of this rank's contribution to rank `to`.
  SL_HD void LoadOwn(uint32_t to, const Unit& unit, Data (&data)[kUnit]) const {
    if (!args_.Ships(team_.rank, to)) return;
    LoadUnit<kEnds>(args_.send + (to * args_.packets.send_step + begin_), bytes_, unit, data);
    if constexpr (!std::is_void_v<F>) {
      if (args_.Scales()) ScaleUnit<F>(scalar_, data);
    }
  }

  SL_HD void Push() {
    const PacketCut& cut = args_.packets;
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * cut.share_units; at += block_.threads()) {
      const auto [i, number] = cut.TurnOf(at, cut.share_units);
      const uint32_t peer = team_.Peer(i);
      const Unit unit = UnitOf(number, team_.rank, peer);
      if (!unit.Has(0)) continue;
      Data data[kUnit] = {};
      LoadOwn(peer, unit, data);
      if (!box_.Begin()) return;
      box_.Push(0, peer, unit, data);
    }
  }

  // A unit of what a rank has for this one: its own is loaded, another one's waited for. False when the wait was ended.
  SL_HD bool Get(uint32_t from, const Unit& unit, Data (&data)[kUnit]) const {
    if (from == team_.rank) {
      LoadOwn(team_.rank, unit, data);
      return true;
    }
    return !unit.Has(0) || box_.Await(0, from, unit, data);
  }

  // Moves: what comes goes straight to where it belongs, which may be where this rank's data for others was. Warps that
  // wait for few packets leave what this rank has for itself to others.
  SL_HD bool Take() const {
    block_.Sync();
    const PacketCut& cut = args_.packets;
    for (uint32_t own = block_.opposite(); own < cut.share_units; own += block_.threads()) {
      Data data[kUnit] = {};
      const Unit unit = UnitOf(own, team_.rank, team_.rank);
      LoadOwn(team_.rank, unit, data);
      Keep(team_.rank, unit, data);
    }
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * cut.share_units && !given_up; at += block_.threads()) {
      const auto [i, number] = cut.TurnOf(at, cut.share_units);
      const uint32_t from = team_.Peer(i);
      const Unit unit = UnitOf(number, from, team_.rank);
      Data data[kUnit] = {};
      given_up = unit.Has(0) && !box_.Await(0, from, unit, data);
      if (!given_up) Keep(from, unit, data);
    }
    return team_.HasCome(block_, given_up);
  }
  SL_HD void Keep(uint32_t from, const Unit& unit, const Data (&data)[kUnit]) const {
    if (!args_.Ships(from, team_.rank)) return;
    StoreUnit<kEnds>(args_.recv + (from * args_.packets.recv_step + begin_), bytes_, unit, data);
  }

  SL_HD bool Takes() const { return args_.taker < 0 || args_.taker == static_cast<int32_t>(team_.rank); }

  // Reductions of two ranks: a thread waits for the other's units of which it has loaded, and pushed, its own.
  SL_HD bool ReduceTwo() const {
    const uint32_t peer = team_.Peer(0);
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < units_ && !given_up; at += block_.threads()) {
      Data of_rank[2][kUnit] = {};
      LoadOwn(team_.rank, UnitOf(at, team_.rank, team_.rank), of_rank[0]);
      given_up = !Get(peer, UnitOf(at, peer, team_.rank), of_rank[1]);
      if (given_up || !Takes()) continue;
      if (team_.rank != 0) {
        SL_UNROLL
        for (uint32_t k = 0; k < kUnit; ++k) Swap(&of_rank[0][k], &of_rank[1][k]);
      }
      ReducePair<F>(of_rank[0], of_rank[1], args_.reduction, args_.AverageOver());
      StoreUnit<kEnds>(args_.recv + begin_, bytes_, UnitOf(at, team_.rank, team_.rank), of_rank[0]);
    }
    return team_.HasCome(block_, given_up);
  }
  SL_HD static void Swap(Data* a, Data* b) {
    const Data kept = *a;
    *a = *b;
    *b = kept;
  }

  // Others: all contributions meet in shared memory, as many units at a time as fit.
  SL_HD bool ReduceAll() const {
    const uint32_t fit = UnitsThatFit<Format>(team_.size);
    for (uint32_t first = 0; first < units_; first += fit) {
      const uint32_t count = units_ - first < fit ? units_ - first : fit;
      if (!Gather(first, count)) return false;
      if (Takes()) {
        ReducePackets<F>(block_, shared_, team_.size, count * kUnit, args_.reduction, args_.AverageOver(),
                         [&](uint32_t place, const Data& sum) {
                           const uint32_t i = Unit::PacketAt(place, first, count);
                           if (i < packets_) StorePacketData(args_.recv + begin_ + i * kPayload, sum, Valid(i));
                         });
      }
      if (first + count < units_) block_.Sync();
    }
    return true;
  }
  // Of every rank the k-th packets of all units lie side by side.
  SL_HD bool Gather(uint32_t first, uint32_t count) const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < team_.size * count && !given_up; at += block_.threads()) {
      const auto [from, number] = args_.packets.TurnOf(at, count);
      Data data[kUnit] = {};
      given_up = !Get(from, UnitOf(first + number, from, team_.rank), data);
      SL_UNROLL
      for (uint32_t k = 0; k < kUnit; ++k) shared_[(from * kUnit + k) * count + number] = data[k];
    }
    return team_.HasCome(block_, given_up);
  }

  const Args& args_;
  const Team& team_;
  PacketBox<Format> box_;
  const dev::Block block_;
  Data* const shared_;
  uint32_t begin_;  // bytes; this block's share of every pattern block
  uint32_t bytes_;
  uint32_t packets_;
  uint32_t units_;  // one at least
  uint64_t scalar_ = 0;
};

}  // namespace sl::algo_symmetric::kernels

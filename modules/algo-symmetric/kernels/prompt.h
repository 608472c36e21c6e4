// SPDX-License-Identifier: Apache-2.0
//
// One-shot packets for what is smallest: whole packets at aligned addresses, one for each thread. What such an
// operation takes is the time of its instructions, so all that other messages need is left out; on the wire it looks
// like any one-shot operation (one_shot.h), and a rank whose buffers do not fit runs that one.
//
// The next grid may come to the GPU as soon as this one's packets are sent, before this rank has heard of its peers. It
// waits there, and holds what this grid holds: a few blocks of few registers, beside which others fit.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/packet_data.h"
#include "modules/algo-symmetric/kernels/packets.h"
#include "sdk/device/grid.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kPromptBlocks = 8;  // of a grid, at most

// Whether an operation that goes by one-shot packets is so small. Of one rank: others may find otherwise.
inline bool IsPrompt(const Args& args, uint32_t blocks, uint32_t threads) {
  constexpr uintptr_t kPacket = sizeof(LlFormat::Data);
  const PacketCut& cut = args.packets;
  const uintptr_t places =
      reinterpret_cast<uintptr_t>(args.send) | reinterpret_cast<uintptr_t>(args.recv) | cut.block_bytes;
  const bool reduces_so = args.team.size == 2 && !args.Scales();
  return places % kPacket == 0 && blocks <= kPromptBlocks && (args.team.size - 1) * cut.share_units <= threads &&
         (!args.pattern.reduces || reduces_so);
}

// F as in Staged; reductions are of two ranks.
template <typename F>
class Prompt {
 public:
  SL_HD Prompt(const Args& args, const dev::Block& block)
      : args_(args),
        team_(args.team),
        block_(block),
        box_(args.team, block),
        begin_(block.index * args.packets.share_bytes),
        mine_(DealOf(block.thread())) {}

  // Waits for earlier grids.
  SL_HD void Run() {
    dev::AwaitEarlierGrids();
    const Data first = Outgoing(mine_);  // comes together with the epoch
    if (!box_.Begin()) return;
    Each([&](const Deal& deal) {
      const Data data[1] = {&deal == &mine_ ? first : Outgoing(deal)};
      box_.Push(0, deal.peer, deal.unit(), data);
    });
    dev::LetNextGridLaunch();
    box_.PrepareToClose();
    if constexpr (std::is_void_v<F>) KeepOwn();
    bool given_up = false;
    Each([&](const Deal& deal) {
      if (!Take(deal)) given_up = true;
    });
    team_.HasCome(block_, given_up) ? box_.Close() : box_.End();
  }

 private:
  using Data = LlFormat::Data;
  using Unit = LlFormat::Unit;
  static constexpr uint32_t kPacket = sizeof(Data);

  // One packet each way, with one peer. An empty one where there is no data to tell of.
  struct Deal {
    bool exists;
    bool sends;
    bool takes;
    uint32_t peer;
    uint32_t number;  // of the packet
    uint32_t at;      // in a pattern block

    SL_HD Unit unit() const { return {number, number + 1}; }
  };

  SL_HD Deal DealOf(uint32_t i) const {
    const PacketCut& cut = args_.packets;
    const Turn turn = cut.TurnOf(i, cut.share_units);
    const uint32_t peer = team_.Peer(turn.rank);
    const uint32_t at = begin_ + turn.unit * kPacket;
    const bool has_data = at < cut.block_bytes;
    const bool exists = i < Deals() && (has_data || turn.unit == 0);
    return {exists,
            exists && has_data && args_.Ships(team_.rank, peer),
            has_data && args_.Ships(peer, team_.rank),
            peer,
            turn.unit,
            at};
  }
  SL_HD uint32_t Deals() const { return (team_.size - 1) * args_.packets.share_units; }

  // Every thread has one at most; on a host one thread has all.
  template <typename Call>
  SL_HD void Each(const Call& call) const {
    if (mine_.exists) call(mine_);
#ifndef __CUDA_ARCH__
    for (uint32_t i = 1; i < Deals(); ++i) {
      const Deal deal = DealOf(i);
      if (deal.exists) call(deal);
    }
#endif
  }

  SL_HD const uint8_t* From(uint32_t to, uint32_t at) const { return args_.send + (to * args_.packets.send_step + at); }
  SL_HD uint8_t* To(uint32_t from, uint32_t at) const { return args_.recv + (from * args_.packets.recv_step + at); }
  SL_HD Data Outgoing(const Deal& deal) const {
    return deal.sends ? dev::LoadOwn<kPacket>(From(deal.peer, deal.at)) : Data{};
  }

  // Moves: what this rank has for itself, by other warps than those that wait for few packets.
  SL_HD void KeepOwn() const {
    if (!args_.Ships(team_.rank, team_.rank)) return;
    for (uint32_t i = block_.opposite(); i < args_.packets.share_units; i += block_.threads()) {
      const uint32_t at = begin_ + i * kPacket;
      if (at < args_.packets.block_bytes) dev::Store(To(team_.rank, at), dev::LoadOwn<kPacket>(From(team_.rank, at)));
    }
  }

  // False when the wait was ended. A location that is read and written is so by one thread.
  SL_HD bool Take(const Deal& deal) const {
    Data own[1] = {};
    Data data[1] = {};
    if constexpr (!std::is_void_v<F>) {
      if (deal.takes) own[0] = dev::LoadOwn<kPacket>(From(team_.rank, deal.at));
    }
    if (!box_.Await(0, deal.peer, deal.unit(), data)) return false;
    if (!deal.takes) return true;
    if constexpr (std::is_void_v<F>) {
      dev::Store(To(deal.peer, deal.at), data[0]);
    } else {
      const bool is_first = team_.rank == 0;
      Data sum[1] = {is_first ? own[0] : data[0]};
      const Data other[1] = {is_first ? data[0] : own[0]};
      ReducePair<F>(sum, other, args_.reduction, args_.AverageOver());
      dev::Store(args_.recv + deal.at, sum[0]);
    }
    return true;
  }

  const Args& args_;
  const Team& team_;
  const dev::Block block_;
  PacketBox<LlFormat> box_;
  const uint32_t begin_;  // of this block's share
  const Deal mine_;
};

}  // namespace sl::algo_symmetric::kernels

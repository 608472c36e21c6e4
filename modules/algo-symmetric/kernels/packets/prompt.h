// SPDX-License-Identifier: Apache-2.0
//
// One-shot packets for what is smallest: whole packets, or one that is a word or a part of it, at aligned addresses,
// one for each thread. What such an operation takes is the time of its instructions, so all that other messages need is
// left out; on the wire it looks like any one-shot operation (one_shot.h), and a rank whose buffers do not fit runs
// that one.
//
// With Trigger::kSent the next grid may come to the GPU as soon as this one's packets are sent, before this rank has
// heard of its peers.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/packets/packet_data.h"
#include "modules/algo-symmetric/kernels/packets/packets.h"
#include "sdk/device/grid.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kPromptRanks = 8;  // of a reduction, at most: a thread takes what all have sent

// Whether an operation that goes by one-shot packets is so small. Of one rank: others may find otherwise.
inline bool IsPrompt(const Args& args, uint32_t threads) {
  constexpr uint32_t kPacket = sizeof(LlFormat::Data);
  const PacketCut& cut = args.packets;
  const uint32_t bytes = cut.block_bytes;
  const bool is_part = bytes == 1 || bytes == 2 || bytes == 4;
  const auto places = reinterpret_cast<uintptr_t>(args.send) | reinterpret_cast<uintptr_t>(args.recv);
  const bool fits = (bytes % kPacket == 0 || is_part) && places % (is_part ? bytes : kPacket) == 0;
  const bool can_reduce = args.team.size <= kPromptRanks && !args.Scales();
  return fits && args.team.size >= 2 && (args.team.size - 1) * cut.share_units <= threads &&
         (!args.pattern.reduces || can_reduce);
}

// F as in Staged.
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
    Each(Deals(), [&](const Deal& deal) {
      const Data data[1] = {&deal == &mine_ ? first : Outgoing(deal)};
      if (deal.pushes) box_.Push(0, deal.peer, deal.unit(), data);
      return true;
    });
    box_.PrepareToClose();
    if (block_.opposite() == 0) team_.LetNextIn(Trigger::kSent);  // behind its mark
    team_.HasCome(block_, !Finish()) ? box_.Close() : box_.End();
  }

 private:
  using Data = LlFormat::Data;
  using Unit = LlFormat::Unit;
  static constexpr uint32_t kPacket = sizeof(Data);

  // One packet each way, with one peer. Who has nothing for the other sends an empty one.
  struct Deal {
    bool sends;
    bool pushes;  // that, or an empty one
    bool takes;
    bool awaits;  // that, or an empty one
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
    const bool exists = i < Deals();
    const bool has_data = exists && at < cut.block_bytes;
    const bool is_first = exists && turn.unit == 0;
    const bool sends = has_data && args_.Ships(team_.rank, peer);
    const bool takes = has_data && args_.Ships(peer, team_.rank);
    return {sends, sends || is_first, takes, takes || is_first, peer, turn.unit, at};
  }
  SL_HD uint32_t Deals() const { return (team_.size - 1) * args_.packets.share_units; }

  // Of the first so many, every thread has one at most; on a host one thread has all. False when a call says so.
  template <typename Call>
  SL_HD bool Each(uint32_t deals, const Call& call) const {
    bool goes_on = block_.thread() >= deals || call(mine_);
#ifndef __CUDA_ARCH__
    for (uint32_t i = 1; i < deals && goes_on; ++i) goes_on = call(DealOf(i));
#endif
    return goes_on;
  }

  SL_HD const uint8_t* From(uint32_t to, uint32_t at) const { return args_.send + (to * args_.packets.send_step + at); }
  SL_HD uint8_t* To(uint32_t from, uint32_t at) const { return args_.recv + (from * args_.packets.recv_step + at); }
  SL_HD Data Load(const uint8_t* from) const {
    const uint32_t bytes = args_.packets.block_bytes;
    return bytes >= kPacket ? dev::LoadOwn<kPacket>(from) : Data{dev::LoadPart(from, bytes), 0};
  }
  SL_HD void Store(uint8_t* to, const Data& data) const {
    const uint32_t bytes = args_.packets.block_bytes;
    bytes >= kPacket ? dev::Store(to, data) : dev::StorePart(to, data.word[0], bytes);
  }
  SL_HD Data Outgoing(const Deal& deal) const { return deal.sends ? Load(From(deal.peer, deal.at)) : Data{}; }

  // Takes what the peers send. False when a wait was ended.
  SL_HD bool Finish() const {
    if constexpr (std::is_void_v<F>) {
      KeepOwn();
      return Each(Deals(), [&](const Deal& deal) { return Take(deal); });
    } else {
      const uint32_t deals = args_.packets.share_units;  // with the first peer, and with all others alike
      if (team_.size == 2) return Each(deals, [&](const Deal& deal) { return ReduceTwo(deal); });
      block_.Sync();  // what this rank sends is loaded, before results replace it
      if (team_.size <= 4) return Each(deals, [&](const Deal& deal) { return ReduceAll<4>(deal); });
      return Each(deals, [&](const Deal& deal) { return ReduceAll<kPromptRanks>(deal); });
    }
  }

  // Moves: what this rank has for itself, by other warps than those that wait for few packets.
  SL_HD void KeepOwn() const {
    if (!args_.Ships(team_.rank, team_.rank)) return;
    for (uint32_t i = block_.opposite(); i < args_.packets.share_units; i += block_.threads()) {
      const uint32_t at = begin_ + i * kPacket;
      if (at < args_.packets.block_bytes) Store(To(team_.rank, at), Load(From(team_.rank, at)));
    }
  }

  // False when the wait was ended. A location that is read and written is so by one thread.
  SL_HD bool Take(const Deal& deal) const {
    Data data[1] = {};
    if (deal.awaits && !box_.Await(0, deal.peer, deal.unit(), data)) return false;
    if (deal.takes) Store(To(deal.peer, deal.at), data[0]);
    return true;
  }

  // A thread reduces a packet of all ranks.
  SL_HD bool ReduceTwo(const Deal& deal) const {
    const Data own = LoadOwn(deal);
    Data data[1] = {};
    if (deal.awaits && !box_.Await(0, deal.peer, deal.unit(), data)) return false;
    const bool is_first = team_.rank == 0;
    Data of_rank[2] = {is_first ? own : data[0], is_first ? data[0] : own};
    Reduce(deal, of_rank);
    return true;
  }
  template <uint32_t kRanks>
  SL_HD bool ReduceAll(const Deal& deal) const {
    const Data own = LoadOwn(deal);
    Data of_rank[kRanks] = {};
    if (deal.awaits && !box_.AwaitAll(0, deal.unit(), of_rank)) return false;
    SL_UNROLL
    for (uint32_t r = 0; r < kRanks; ++r) {
      if (r == team_.rank) of_rank[r] = own;
    }
    Reduce(deal, of_rank);
    return true;
  }
  SL_HD Data LoadOwn(const Deal& deal) const { return deal.takes ? Load(From(team_.rank, deal.at)) : Data{}; }
  template <uint32_t kRanks>
  SL_HD void Reduce(const Deal& deal, Data (&of_rank)[kRanks]) const {
    if (!deal.takes) return;
    ReduceRanks<F>(of_rank, team_.size, args_.reduction, args_.AverageOver());
    Store(args_.recv + deal.at, of_rank[0]);
  }

  const Args& args_;
  const Team& team_;
  const dev::Block block_;
  PacketBox<LlFormat> box_;
  const uint32_t begin_;  // of this block's share
  const Deal mine_;
};

}  // namespace sl::algo_symmetric::kernels

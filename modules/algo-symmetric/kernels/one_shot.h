// SPDX-License-Identifier: Apache-2.0
//
// One-shot: every rank pushes to every peer the block that this peer takes, as packets that carry their epoch, and
// takes what it was sent. One hop, no barrier, no fence (ll_packet.h). Who has nothing for a peer sends it an empty
// packet, so that everybody hears from everybody in every epoch.
//
// Slots: epoch e writes into the slot that epoch e - 2 used, at all peers. That is safe: this rank's launch of epoch
// e - 1 ended only when it had heard from every peer p; p sent that after its launch of e - 2 had ended, hence after it
// had read everything of e - 2. Launches of a lane run one after the other, and each reads all its packets.
//
// Stale packets: flags repeat after 2^32 epochs. So every launch stamps one packet of every sender in the slot it has
// just read with its own epoch, another one each time: after 2 * packets_per_block epochs no flag is older than that.
//
// Every block of the grid has its epoch and its packets. How many blocks an operation has follows from its size, so a
// block runs the same epochs on all ranks.
#pragma once

#include <type_traits>

#include "modules/algo-symmetric/kernels/packets.h"

namespace sl::algo_symmetric::kernels {

// F as in Staged. `shared` holds kSharedPackets packets' data.
template <typename F>
class OneShotPackets {
 public:
  SL_HD OneShotPackets(const Args& args, const dev::Block& block, dev::Vec8* shared)
      : args_(args), team_(args.team), box_(args.team, block), block_(block), shared_(shared) {
    const uint64_t bytes = args.pattern.block_elements * args.element_bytes;
    const uint64_t begin = block.index * args.share_elements * kPayload;
    begin_ = begin;
    bytes_ = static_cast<uint32_t>(begin >= bytes ? 0 : Least(bytes - begin, args.share_elements * kPayload));
    packets_ = (bytes_ + kPayload - 1) / kPayload;
    if (args.Scales()) scalar_ = args.Scalar();
  }

  SL_HD void Run() {
    if (box_.IsEnded()) return;
    Push();
    bool done = true;
    if constexpr (std::is_void_v<F>) {
      done = Take();
    } else {
      done = ReduceAll();
    }
    if (!done) return box_.End();
    box_.Close();
  }

 private:
  static constexpr uint32_t kPayload = sizeof(dev::Vec8);
  SL_HD static uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }

  // Packets that `from` sends `to`; one empty packet at least.
  SL_HD uint32_t Count(uint32_t from, uint32_t to) const {
    return args_.Ships(from, to) && packets_ != 0 ? packets_ : 1;
  }
  SL_HD uint32_t Valid(uint32_t packet) const { return bytes_ - packet * kPayload; }

  // Packet `i` of this rank's contribution to rank `to`.
  SL_HD dev::Vec8 Own(uint32_t to, uint32_t i) const {
    if (!args_.Ships(team_.rank, to) || i >= packets_) return {};
    const uint32_t block = args_.pattern.blocks > 1 ? to : 0;
    const dev::Vec8 data = dev::LoadAny<8>(args_.send + args_.BlockOffset(block, 0) + begin_ + i * kPayload, Valid(i));
    if constexpr (!std::is_void_v<F>) {
      if (args_.Scales()) return dev::Scaled<F>(data, scalar_);
    }
    return data;
  }

  SL_HD void Push() const {
    const uint32_t most = packets_ != 0 ? packets_ : 1;
    for (uint32_t at = block_.thread(); at < (team_.size - 1) * most; at += block_.threads()) {
      const uint32_t peer = team_.Peer(at / most);
      const uint32_t i = at % most;
      if (i < Count(team_.rank, peer)) box_.Push(0, peer, i, Own(peer, i));
    }
  }

  // Moves: what comes goes straight to where it belongs, which may be where this rank's data for others was.
  SL_HD bool Take() const {
    bool given_up = false;
    block_.Sync();
    const uint32_t most = packets_ != 0 ? packets_ : 1;
    for (uint32_t at = block_.thread(); at < team_.size * most && !given_up; at += block_.threads()) {
      const uint32_t from = at / most;
      const uint32_t i = at % most;
      dev::Vec8 data{};
      if (from == team_.rank) {
        data = Own(team_.rank, i);
      } else if (i >= Count(from, team_.rank)) {
        continue;
      } else if (!box_.Await(0, from, i, &data)) {
        given_up = true;
      }
      if (!args_.Ships(from, team_.rank) || i >= packets_ || given_up) continue;
      const uint32_t block = args_.giver < 0 ? from : 0;
      dev::StoreAny(args_.recv + args_.BlockOffset(block, 0) + begin_ + i * kPayload, data, Valid(i));
    }
    return team_.HasCome(block_, given_up);
  }

  // Reductions: all contributions meet in shared memory, as many packets at a time as fit.
  SL_HD bool ReduceAll() const {
    const uint32_t fit = kSharedPackets / team_.size;
    const uint32_t most = packets_ != 0 ? packets_ : 1;
    for (uint32_t first = 0; first < most; first += fit) {
      const uint32_t count = most - first < fit ? most - first : fit;
      if (!Gather(first, count)) return false;
      if (args_.taker < 0 || args_.taker == static_cast<int32_t>(team_.rank)) {
        ReducePackets<F>(block_, shared_, team_.size, count, args_.reduction, args_.AverageOver(),
                         [&](uint32_t i, const dev::Vec8& sum) {
                           if (first + i >= packets_) return;
                           dev::StoreAny(args_.recv + begin_ + (first + i) * kPayload, sum, Valid(first + i));
                         });
      }
      block_.Sync();
    }
    return true;
  }
  SL_HD bool Gather(uint32_t first, uint32_t count) const {
    bool given_up = false;
    for (uint32_t at = block_.thread(); at < team_.size * count && !given_up; at += block_.threads()) {
      const uint32_t from = at / count;
      const uint32_t i = first + at % count;
      if (from == team_.rank) {
        shared_[at] = Own(team_.rank, i);
      } else if (i < Count(from, team_.rank)) {
        given_up = !box_.Await(0, from, i, &shared_[at]);
      }
    }
    return team_.HasCome(block_, given_up);
  }

  const Args& args_;
  const Team& team_;
  const PacketBox box_;
  const dev::Block block_;
  dev::Vec8* const shared_;
  uint64_t begin_;  // bytes; this block's share of every pattern block
  uint32_t bytes_;
  uint32_t packets_;
  uint64_t scalar_ = 0;
};

}  // namespace sl::algo_symmetric::kernels

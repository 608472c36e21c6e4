// SPDX-License-Identifier: Apache-2.0
//
// What the packet protocols share: a block's inboxes at its own rank and at the peers, for one epoch, and the reduction
// of what came.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

class PacketBox {
 public:
  SL_HD PacketBox(const Team& team, const dev::Block& block)
      : team_(team), block_(block), epoch_(dev::NextEpoch(*Epoch())) {}

  // It gave up in an earlier launch; for all threads alike.
  SL_HD bool IsEnded() const { return epoch_ == 0; }

  SL_HD void Push(uint32_t shot, uint32_t peer, uint32_t packet, const dev::Vec8& data) const {
    dev::Dawdle(team_.warden.dawdle_ns);
    dev::StorePacket(team_.Packets(peer, shot, epoch_, block_.index, team_.rank) + packet, data, epoch_);
  }

  // False when the wait was ended.
  SL_HD bool Await(uint32_t shot, uint32_t from, uint32_t packet, dev::Vec8* data) const {
    const dev::LlPacket* place = team_.Packets(team_.rank, shot, epoch_, block_.index, from) + packet;
    dev::Vigil vigil(team_.warden);
    uint32_t seen = 0;
    while (!dev::PollPacket(place, epoch_, data, &seen)) {
      const dev::Wanted wanted{static_cast<int32_t>(from), shot == 0 ? kStepPacket : kStepResult, epoch_};
      if (vigil.GivesUp(wanted, seen)) return false;
    }
    return true;
  }

  // Ends the epoch, once all threads have read all packets and passed a Sync. Both shots are stamped, used or not.
  SL_HD void Close() const {
    const uint32_t packet = epoch_ / kPacketSlots % team_.layout.packets_per_block;
    for (uint32_t i = block_.thread(); i < kShots * team_.size; i += block_.threads()) {
      dev::LlPacket* stamped = team_.Packets(team_.rank, i / team_.size, epoch_, block_.index, i % team_.size) + packet;
      dev::StorePacket(stamped, {}, epoch_);
    }
    if (block_.thread() == 0) *Epoch() = epoch_;
  }
  // Gives up, once all threads have passed a Sync.
  SL_HD void End() const {
    if (block_.thread() == 0) *Epoch() = kEndedEpoch;
  }

 private:
  SL_HD uint32_t* Epoch() const {
    return reinterpret_cast<uint32_t*>(team_.At(team_.rank, team_.layout.epochs)) + block_.index;
  }

  const Team& team_;
  const dev::Block block_;
  const uint32_t epoch_;
};

// Reduces packet i of every rank, shared[rank * count + i], in rank order, and hands the result to store(i, packet).
template <typename F, sl_reduction_t kReduction, typename StoreSum>
SL_HD void ReducePacketsBy(const dev::Block& block, const dev::Vec8* shared, uint32_t ranks, uint32_t count,
                           uint32_t average_over, const StoreSum& store) {
  for (uint32_t i = block.thread(); i < count; i += block.threads()) {
    dev::Accumulator<F, kReduction, sizeof(dev::Vec8)> sum;
    sum.Start(shared[i]);
    for (uint32_t r = 1; r < ranks; ++r) sum.Add(shared[r * count + i]);
    store(i, sum.Finish(average_over));
  }
}

template <typename F, typename StoreSum>
SL_HD void ReducePackets(const dev::Block& block, const dev::Vec8* shared, uint32_t ranks, uint32_t count,
                         sl_reduction_t reduction, uint32_t average_over, const StoreSum& store) {
  switch (reduction) {
    case SL_PROD:
      return ReducePacketsBy<F, SL_PROD>(block, shared, ranks, count, average_over, store);
    case SL_MAX:
      return ReducePacketsBy<F, SL_MAX>(block, shared, ranks, count, average_over, store);
    case SL_MIN:
      return ReducePacketsBy<F, SL_MIN>(block, shared, ranks, count, average_over, store);
    default:
      return ReducePacketsBy<F, SL_SUM>(block, shared, ranks, count, average_over, store);
  }
}

}  // namespace sl::algo_symmetric::kernels

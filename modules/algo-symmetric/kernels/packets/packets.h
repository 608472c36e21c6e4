// SPDX-License-Identifier: Apache-2.0
//
// A block's inboxes at its own rank and at the peers, for one epoch: what the packet protocols share.
//
// Where kernels let the next one in before their exit, two launches of a lane may be on the GPU at the same time: a
// kernel of somebody else lies between them that does not wait for the first, so that the second waits in vain. Then a
// block has two words, the epoch begun last and the one ended last. It marks an epoch as begun, and that mark has
// arrived before the next grid is let in; a block that finds an epoch begun and not ended waits for its end. Without
// such a kernel it never does, since the launch before is over. Only epochs are kept apart so: data that the first
// launch leaves to the second is in order with Trigger::kExit alone. Blanks, which must be there before the peers hear
// of the next epoch, need the exit, too.
#pragma once

#include "modules/algo-symmetric/kernels/packets/packet_format.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

template <typename Format>
class PacketBox {
 public:
  using Data = typename Format::Data;
  using Unit = typename Format::Unit;
  static constexpr uint32_t kUnit = Format::kUnit;

  SL_HD PacketBox(const Team& team, const dev::Block& block) : team_(team), block_(block) {}

  // Learns the epoch: before all else but loads of data, with which the word then comes. False when the block gave up
  // in an earlier launch; for all threads alike.
  SL_HD bool Begin() {
    const bool alone = team_.trigger == Trigger::kExit;
    epoch_ = dev::NextEpoch(alone ? dev::LoadOwnWord(Ended()) : AwaitEnd(Ended()));
    return epoch_ != 0;
  }
  // Which packet Close stamps: worked out while nothing has come yet, by a thread that waits for few packets at most.
  // Behind the last Begin of every thread. The epoch's begin is marked afterwards, for that thread.
  SL_HD void PrepareToClose() {
    if (team_.trigger != Trigger::kExit) MarkBegin(block_, Begun(), epoch_);
    if (block_.opposite() != 0) return;
    const uint32_t packets = kShots * team_.size * team_.layout.packets_per_block;
    stamped_ = team_.Packets(team_.rank, 0, epoch_, block_.index, 0) + epoch_ / kPacketSlots % packets;
  }

  SL_HD void Push(uint32_t shot, uint32_t peer, const Unit& unit, const Data (&data)[kUnit]) const {
    dev::Dawdle(team_.warden.dawdle_ns);
    Format::Store(Format::InboxOf(team_, peer, shot, epoch_, block_.index, team_.rank), unit, data, epoch_);
  }

  // False when the wait was ended.
  SL_HD bool Await(uint32_t shot, uint32_t from, const Unit& unit, Data (&data)[kUnit]) const {
    const auto inbox = Format::InboxOf(team_, team_.rank, shot, epoch_, block_.index, from);
    dev::Vigil vigil(team_.warden);
    uint32_t seen = 0;
    while (!Format::Poll(inbox, unit, epoch_, data, &seen)) {
      const dev::Wanted wanted{static_cast<int32_t>(from), shot == 0 ? kStepPacket : kStepResult, epoch_};
      if (vigil.GivesUp(wanted, seen)) return false;
    }
    Format::MakeBlank(inbox, unit);
    return true;
  }

  // The same of a unit of every other of up to kRanks ranks, all looked for at once. What stands at other places is
  // lost.
  template <uint32_t kRanks>
  SL_HD bool AwaitAll(uint32_t shot, const Unit& unit, Data (&of_rank)[kRanks]) const {
    static_assert(kUnit == 1);
    const auto peer_at = [this](uint32_t r) { return r < team_.size && r != team_.rank ? r : team_.Peer(0); };
    dev::Vigil vigil(team_.warden);
    for (;;) {
      uint32_t seen = 0;
      uint32_t late = kRanks;
      SL_UNROLL
      for (uint32_t r = 0; r < kRanks; ++r) {
        Data data[1];
        uint32_t its = 0;
        const auto inbox = Format::InboxOf(team_, team_.rank, shot, epoch_, block_.index, peer_at(r));
        if (!Format::Poll(inbox, unit, epoch_, data, &its)) {
          late = r;
          seen = its;
        }
        of_rank[r] = data[0];
      }
      if (late == kRanks) return true;
      const dev::Wanted wanted{static_cast<int32_t>(peer_at(late)), shot == 0 ? kStepPacket : kStepResult, epoch_};
      if (vigil.GivesUp(wanted, seen)) return false;
    }
  }

  // Ends the epoch, once all threads have read all packets and passed a Sync.
  SL_HD void Close() const {
    if (block_.opposite() == 0) dev::StorePacket(stamped_, {}, epoch_);
    if (block_.thread() != 0) return;
    *Ended() = epoch_;
    if constexpr (!Format::kMakesBlank) team_.LetNextIn(Trigger::kHeard);
  }
  // Gives up, once all threads have passed a Sync.
  SL_HD void End() const {
    if (block_.thread() == 0) *Ended() = kEndedEpoch;
  }

 private:
  SL_HD uint32_t* Ended() const {
    return reinterpret_cast<uint32_t*>(team_.At(team_.rank, team_.layout.epochs)) + block_.index;
  }
  SL_HD uint32_t* Begun() const { return Ended() + kPacketBlocks; }

  // The epoch that ended last, once none is begun and not ended. A launch that is under way ends of its own accord, or
  // gives up because of the abort word; so this wait ends without looking at that, for all threads of a block alike.
  SL_HD static uint32_t AwaitEnd(const uint32_t* ended) {
    const uint32_t begun = dev::Poll(ended + kPacketBlocks);
    for (;;) {
      const uint32_t epoch = dev::Poll(ended);
      if (epoch == begun || epoch == kEndedEpoch) return epoch;
      dev::Breathe();
    }
  }
  // Once all threads have read the words, one writes. It goes on when its mark has arrived, so that it sees it.
  SL_HD static void MarkBegin(const dev::Block& block, uint32_t* begun, uint32_t epoch) {
    block.Sync();
    if (block.opposite() != 0) return;
    dev::StoreNote(begun, epoch);
    while (dev::Poll(begun) != epoch) {
    }
  }

  const Team& team_;
  const dev::Block block_;
  uint32_t epoch_ = 0;
  dev::LlPacket* stamped_ = nullptr;
};

}  // namespace sl::algo_symmetric::kernels

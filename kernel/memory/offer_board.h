// SPDX-License-Identifier: Apache-2.0
//
// Where ranks of one host offer each other allocations, and answer. A board lies in memory that all of them map. Every
// rank has a slice: its offers, and behind them what the others answer to each. An offer has one writer, its owner; an
// answer has one writer, who answers.
//
// An offer's turn only grows: odd, it stands; even, it is withdrawn. A peer answers a turn with the same turn, and the
// owner changes an offer only when all have answered the last one, so that an offer is never read while it is written.
#pragma once

#include <atomic>
#include <cstdint>

#include "sl_device.h"

namespace sl::kernel {

class OfferBoard {
 public:
  static constexpr uint32_t kOffers = 64;
  static constexpr uint32_t kHandleBytes = sizeof(sl_memory_handle_t::fabric);

  struct Offer {
    uint64_t turn;
    uint64_t bytes;   // of all its allocations
    uint32_t type;    // of `handle`, for ranks of other processes; SL_HANDLE_LOCAL: there are none
    uint32_t pieces;  // 0: one allocation, whose handles stand here; else as many that are fetched from the owner
    uint8_t local[kHandleBytes];  // of SL_HANDLE_LOCAL, for ranks of the owner's process; also of one fetched piece
    uint8_t handle[kHandleBytes];
  };
  struct Answer {
    uint64_t turn;
    uint64_t address;  // of the memory, for who answers; 0: it cannot map it, or the offer was withdrawn
  };

  static constexpr uint64_t SliceBytes(uint32_t ranks) {
    return kOffers * (sizeof(Offer) + uint64_t{ranks} * sizeof(Answer));
  }

  OfferBoard() = default;
  // `base`: of rank 0's slice, zeroed at creation.
  OfferBoard(uint8_t* base, uint64_t stride, uint32_t ranks) : base_(base), stride_(stride), ranks_(ranks) {}

  Offer* OfferOf(uint32_t owner, uint32_t index) const {
    return reinterpret_cast<Offer*>(base_ + owner * stride_) + index;
  }
  Answer* AnswerTo(uint32_t owner, uint32_t index, uint32_t by) const {
    auto* answers = reinterpret_cast<Answer*>(base_ + owner * stride_ + kOffers * sizeof(Offer));
    return answers + uint64_t{index} * ranks_ + by;
  }
  uint32_t ranks() const { return ranks_; }

  // The release pairs with the acquire of Turn: who sees a turn sees what was written before it.
  template <typename Entry>
  static void SetTurn(Entry* entry, uint64_t turn) {
    std::atomic_ref<uint64_t>(entry->turn).store(turn, std::memory_order_release);
  }
  template <typename Entry>
  static uint64_t Turn(Entry* entry) {
    return std::atomic_ref<uint64_t>(entry->turn).load(std::memory_order_acquire);
  }
  static bool Stands(uint64_t turn) { return turn % 2 != 0; }

 private:
  uint8_t* base_ = nullptr;
  uint64_t stride_ = 0;
  uint32_t ranks_ = 0;
};

}  // namespace sl::kernel

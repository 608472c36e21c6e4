// SPDX-License-Identifier: Apache-2.0
//
// Completions on their way to poll(): a bounded ring with many producers and one consumer, without a lock. A producer
// reserves its place before it does the work, so that work that was done can always be reported.
//
// Invariant: cell i's turn is t when ticket t (t % kCells == i) may write it, t + 1 when the consumer may read it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "sl_transport.h"

namespace sl::transport_shm {

class CompletionRing {
 public:
  static constexpr uint64_t kCells = 1024;

  CompletionRing() {
    for (uint64_t i = 0; i < kCells; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // False when the ring is full.   thread: any, overlapping allowed
  bool Reserve(uint64_t* out_ticket) {
    uint64_t ticket = tail_.load(std::memory_order_relaxed);
    for (;;) {
      const uint64_t turn = cells_[ticket % kCells].turn.load(std::memory_order_acquire);  // A1 pairs with R2
      if (turn < ticket) return false;
      if (turn > ticket) {
        ticket = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) {
        *out_ticket = ticket;
        return true;
      }
    }
  }

  void Publish(uint64_t ticket, const sl_completion_t& completion) {
    Cell& cell = cells_[ticket % kCells];
    cell.value = completion;
    cell.turn.store(ticket + 1, std::memory_order_release);  // R1 pairs with A2
  }

  // Takes up to `capacity` completions in order of their tickets.   thread: one at a time
  uint32_t Take(sl_completion_t* out, uint32_t capacity) {
    uint32_t taken = 0;
    while (taken < capacity) {
      Cell& cell = cells_[head_ % kCells];
      if (cell.turn.load(std::memory_order_acquire) != head_ + 1) break;  // A2
      if (cell.value.connection != nullptr) out[taken++] = cell.value;    // else its connection was retired
      cell.turn.store(head_ + kCells, std::memory_order_release);         // R2
      ++head_;
    }
    return taken;
  }

  // Drops what waits of a retired connection.   thread: the consumer's
  void Forget(const sl_connection_t* connection) {
    for (uint64_t ticket = head_; ticket != tail_.load(std::memory_order_relaxed); ++ticket) {
      Cell& cell = cells_[ticket % kCells];
      if (cell.turn.load(std::memory_order_acquire) != ticket + 1) continue;
      if (cell.value.connection == connection) cell.value.connection = nullptr;
    }
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn{0};
    sl_completion_t value = {};
  };
  std::array<Cell, kCells> cells_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

}  // namespace sl::transport_shm

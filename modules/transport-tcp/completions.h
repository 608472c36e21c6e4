// SPDX-License-Identifier: Apache-2.0
//
// Completions on their way to poll(): a bounded ring with many producers and one consumer, without a lock. A put takes
// room before it is accepted and a place only when it has ended, so that a connection that stands still holds up
// nobody else's completions.
//
// Invariants: (1) rooms taken + completions in the ring <= kCells, hence a producer always finds its cell free.
// (2) Cell i's turn is t when ticket t (t % kCells == i) may write it, t + 1 when the consumer may read it.
// (3) Of the rooms that tickets 0 to t used up, the one reserved last saw, by (1), that the consumer has read ticket
// t - kCells (R1, A1). Another thread may have reserved it, long after ticket t's own room: tickets carry it on (A3).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "sl_transport.h"

namespace sl::transport_tcp {

class Completions {
 public:
  static constexpr uint64_t kCells = 1024;

  Completions() {
    for (uint64_t i = 0; i < kCells; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // False when there is no room.   thread: any, overlapping allowed
  bool Reserve() {
    if (room_.fetch_sub(1, std::memory_order_acquire) > 0) return true;  // A1 pairs with R1
    room_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // Gives back room for a completion that will not come.
  void Cancel() { room_.fetch_add(1, std::memory_order_release); }

  // Uses up one reservation.   thread: any, overlapping allowed
  void Publish(const sl_completion_t& completion) {
    const uint64_t ticket = tail_.fetch_add(1, std::memory_order_acq_rel);  // A3 pairs with itself, ticket by ticket
    Cell& cell = cells_[ticket % kCells];
    cell.value = completion;
    cell.dropped = false;
    cell.turn.store(ticket + 1, std::memory_order_release);  // R2 pairs with A2
  }

  // Takes up to `capacity` completions.   thread: the consumer's
  uint32_t Take(sl_completion_t* out, uint32_t capacity) {
    uint32_t taken = 0;
    while (taken < capacity) {
      Cell& cell = cells_[head_ % kCells];
      if (cell.turn.load(std::memory_order_acquire) != head_ + 1) break;  // A2
      if (!cell.dropped) out[taken++] = cell.value;
      cell.turn.store(head_ + kCells, std::memory_order_relaxed);
      ++head_;
      room_.fetch_add(1, std::memory_order_release);  // R1: the cell is read before somebody may write it again
    }
    return taken;
  }

  // Drops what waits of a retired connection.   thread: the consumer's
  void Forget(const sl_connection_t* connection) {
    for (uint64_t ticket = head_; ticket != tail_.load(std::memory_order_relaxed); ++ticket) {
      Cell& cell = cells_[ticket % kCells];
      if (cell.turn.load(std::memory_order_acquire) != ticket + 1) continue;
      if (cell.value.connection == connection) cell.dropped = true;
    }
  }

 private:
  struct Cell {
    std::atomic<uint64_t> turn{0};
    sl_completion_t value = {};
    bool dropped = false;
  };
  std::array<Cell, kCells> cells_;
  alignas(64) std::atomic<int64_t> room_{kCells};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

}  // namespace sl::transport_tcp

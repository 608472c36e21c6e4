// SPDX-License-Identifier: Apache-2.0
//
// Words by which ranks of one host signal each other from their streams, in memory that CPUs and devices of all of them
// reach. Every rank has a slice, with an entry for each rank that signals it.
//
// Eager signals are counted: the entry's `raised` grows by one with each, and a wait knows up to which number it waits.
// What is captured is replayed as it stands, so there a signal is a flag: who raises waits for `room`, of its own
// slice, takes it, and sets `flag`, of the peer's; who waits for `flag` takes it and gives `room` back. One is on its
// way at a time, and every replay leaves the words as it found them.
//
// A rank that is stopped releases its streams: it writes a number that satisfies every wait into its own slice. Others
// may still write theirs over it, so it does so until its streams have ended.
//
// What a stream waits for it writes into its own slice first, so that the CPU knows of waits that have begun
// (kernel/runtime/signal_waits.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace sl::kernel {

class SignalBoard {
 public:
  struct Entry {
    uint64_t raised;
    uint64_t flag;
    uint64_t room;
    uint64_t raised_awaited;  // a stream has come to where it waits until so many are raised
    uint64_t flags_awaited;   // a captured wait is under way, and so many flags are still to be taken; 0: none is
    uint64_t room_awaited;    // 1: a captured put waits for room; 0: none does
    uint64_t reserved[2];
  };
  static_assert(sizeof(Entry) == 64);
  // Devices compare words by the sign of their difference, so that it must be far from both ends.
  static constexpr uint64_t kReleased = uint64_t{1} << 62;

  static constexpr uint64_t SliceBytes(uint32_t ranks) { return uint64_t{ranks} * sizeof(Entry); }

  SignalBoard() = default;
  // `base`: of rank 0's slice, zeroed at creation. Every rank prepares its own before it uses any.
  SignalBoard(uint8_t* base, uint64_t stride, uint32_t ranks) : base_(base), stride_(stride), ranks_(ranks) {}

  bool valid() const { return base_ != nullptr; }
  // Of `from` at `at`, whose slice it lies in.
  Entry* At(uint32_t at, uint32_t from) const { return reinterpret_cast<Entry*>(base_ + at * stride_) + from; }

  void Prepare(uint32_t own) const {
    for (uint32_t peer = 0; peer < ranks_; ++peer) Store(&At(own, peer)->room, 1);
  }
  // Never waits.   thread: [any]
  void Release(uint32_t own) const {
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      Entry* entry = At(own, peer);
      for (uint64_t* word : {&entry->raised, &entry->flag, &entry->room}) Store(word, kReleased);
    }
  }

 private:
  static void Store(uint64_t* word, uint64_t value) {
    std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
  }

  uint8_t* base_ = nullptr;
  uint64_t stride_ = 0;
  uint32_t ranks_ = 0;
};

}  // namespace sl::kernel

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
// Gates are where all ranks meet, in collectives that are lists of copies (kernel/runtime/copies.h). A rank that comes
// to a gate writes 1 into its entry of every peer's slice, waits until all entries of its own are 1, and takes them by
// writing 0. A flag is never raised again before it is taken, though nobody gives room for it: between two passings of
// one gate every rank passes another one, `kEnd` after `kBegin` and `kMiddle`, `kBegin` after `kEnd`. A peer is through
// the other one only when this rank has come to it, and this rank comes to it after it has taken what the peer had
// raised at the first: its stream writes the 0 before the 1 that the peer waits for. Every passing leaves the words as
// it found them, so that eager and captured operations pass in the same way, each at gates of their own, since ranks
// may interleave them differently.
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
  enum Gate : uint32_t { kBegin, kMiddle, kEnd, kGates };
  // Captures take the latter two in turn, so that two graphs may run at a time.
  enum Space : uint32_t { kEager, kCaptured, kCapturedToo, kSpaces };
  static constexpr Space SpaceOf(uint64_t capture) {
    return capture == 0 ? kEager : capture % 2 != 0 ? kCaptured : kCapturedToo;
  }

  struct Entry {
    uint64_t raised;
    uint64_t flag;
    uint64_t room;
    uint64_t raised_awaited;  // a stream has come to where it waits until so many are raised
    uint64_t flags_awaited;   // a captured wait is under way, and so many flags are still to be taken; 0: none is
    uint64_t room_awaited;    // 1: a captured put waits for room; 0: none does
    // In a rank's entry of itself: 1 + the gate where a stream of its waits; 0: nowhere.
    uint64_t gate_awaited[kSpaces];
    uint64_t gates[kSpaces][kGates];
    uint64_t reserved[6];
  };
  static_assert(sizeof(Entry) == 192);
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
      for (auto& gates : entry->gates) {
        for (uint64_t& gate : gates) Store(&gate, kReleased);
      }
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

// SPDX-License-Identifier: Apache-2.0
//
// Chunks of random sizes through a ring of slots, acknowledged one by one: what a link does with a connection.
#pragma once

#include <atomic>

#include "tests/conformance/transport/ranks.h"

namespace sl::conform::transport {

// Signal 0 counts what was sent, signal 1 what was taken. thread: Send() and Receive() may run at the same time, each
// on the thread that drives its end's transport.
class Stream {
 public:
  static constexpr uint64_t kSlots = 8;
  static constexpr uint64_t kSlotBytes = 4096;

  // Where the ends lie in different processes, each has a Stream of its own, and both of its ends are that process's.
  Stream(Ranks* ranks, const End& from, const End& to, uint64_t chunks, uint64_t seed)
      : ranks_(*ranks), from_(from), to_(to), chunks_(chunks), seed_(seed) {}

  // Until all are acknowledged, or something has failed.
  void Send();
  void Receive();
  // Takes chunks up to this one.
  bool ReceiveUpTo(uint64_t last);
  // Whether the bytes of a chunk whose signal has been seen are there.
  bool IsWhole(uint64_t chunk);

 private:
  bool Wait(const End& end, uint32_t word, uint64_t value);
  bool Put(const End& end, const void* source, uint64_t bytes, uint64_t offset, uint32_t signal, uint64_t value);
  uint64_t BytesOf(uint64_t chunk) const;

  Ranks& ranks_;
  const End& from_;
  const End& to_;
  const uint64_t chunks_;
  const uint64_t seed_;
  uint64_t taken_ = 0;
  std::atomic<bool> broken_{false};
};

}  // namespace sl::conform::transport

// SPDX-License-Identifier: Apache-2.0
//
// Frames of one connection on their way into the socket. One thread appends (calls on a connection do not overlap),
// one at a time sends; the two may be different threads. Small payloads are copied into the queue, large ones are sent
// from where they lie.
//
// Invariant: done <= head <= tail <= done + kSlots. Slots [head, tail) wait to be sent, [done, head) were given to the
// system with MSG_ZEROCOPY and are still read by it, or stand behind one that is.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "modules/transport-tcp/wire.h"

namespace sl::transport_tcp {

class SendQueue {
 public:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kInlineBytes = 200;  // what makes a slot four cache lines
  static constexpr int kMaxParts = 32;

  // The appending side.
  // False when the queue is full. Borrows `source` when it is longer than kInlineBytes. Cookie 0: no completion.
  bool Append(const Frame& frame, const void* source, uint64_t cookie) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - done_.load(std::memory_order_acquire) == kSlots) return false;  // A1 pairs with R1
    Slot& slot = slots_[tail % kSlots];
    slot.frame = frame;
    slot.source = static_cast<const uint8_t*>(source);
    slot.cookie = cookie;
    if (source != nullptr && frame.bytes <= kInlineBytes) {
      std::memcpy(slot.inlined, source, frame.bytes);
      slot.source = nullptr;
    }
    // R2; sequentially consistent because Connection::Flush() decides by it who sends.
    tail_.store(tail + 1, std::memory_order_seq_cst);
    return true;
  }
  // Half full: time to send, whatever else may come.
  bool IsCrowded() const {
    return tail_.load(std::memory_order_relaxed) - done_.load(std::memory_order_relaxed) > kSlots / 2;
  }

  // Any side.
  bool HasUnsent() const {
    return head_.load(std::memory_order_relaxed) != tail_.load(std::memory_order_seq_cst);
  }  // A2

  // The sending side.
  // What goes next, beginning inside a frame when it was cut: the number of parts, 0: nothing. A slot of at least
  // `alone_bytes` comes alone.
  int Gather(iovec parts[kMaxParts], uint64_t alone_bytes) const;
  // True when the slot that goes next comes alone.
  bool NextIsAlone(uint64_t alone_bytes) const { return HasUnsent() && Next().frame.bytes >= alone_bytes; }
  // True when the next byte begins a frame.
  bool AtFrame() const { return sent_ == 0; }
  // So many bytes were taken by the system. `in_use`, unless 0, is the number of the zero-copy call that took them,
  // counted from 1: the system goes on reading them.
  void Advance(uint64_t bytes, uint64_t in_use);
  // Frees the oldest slot that was sent, when all zero-copy calls it was part of are among the first `finished`.
  bool Finish(uint64_t finished, uint64_t* out_cookie);
  // What has not been sent will not be: its slots wait for Finish() as those do that were.
  void Abandon();
  // Frees the oldest slot, sent or not, though the system may read it; false when there is none.
  bool Drop(uint64_t* out_cookie);

 private:
  struct alignas(64) Slot {
    const uint8_t* source;
    uint64_t cookie;
    uint64_t in_use;
    Frame frame;
    uint8_t inlined[kInlineBytes];  // right behind the frame: one part
  };
  static_assert(sizeof(Slot) == 256 && offsetof(Slot, inlined) == offsetof(Slot, frame) + sizeof(Frame));

  const Slot& Next() const { return slots_[head_.load(std::memory_order_relaxed) % kSlots]; }

  std::array<Slot, kSlots> slots_ = {};
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> done_{0};
  uint64_t sent_ = 0;  // bytes of slot head that have gone
};

}  // namespace sl::transport_tcp

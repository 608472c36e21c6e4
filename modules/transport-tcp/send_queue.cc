// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/send_queue.h"

namespace sl::transport_tcp {
namespace {

void Add(iovec* parts, int* count, const uint8_t* bytes, uint64_t size) {
  if (size != 0) parts[(*count)++] = {const_cast<uint8_t*>(bytes), size};
}

}  // namespace

int SendQueue::Gather(iovec parts[kMaxParts], uint64_t alone_bytes) const {
  const uint64_t tail = tail_.load(std::memory_order_acquire);
  int count = 0;
  uint64_t skip = sent_;
  for (uint64_t at = head_.load(std::memory_order_relaxed); at != tail && count + 2 <= kMaxParts; ++at) {
    const Slot& slot = slots_[at % kSlots];
    const bool alone = slot.frame.bytes >= alone_bytes;
    if (alone && count != 0) break;
    const uint64_t first = sizeof(Frame) + (slot.source == nullptr ? slot.frame.bytes : 0);
    if (skip < first) Add(parts, &count, reinterpret_cast<const uint8_t*>(&slot.frame) + skip, first - skip);
    const uint64_t past = skip > first ? skip - first : 0;
    if (slot.source != nullptr) Add(parts, &count, slot.source + past, slot.frame.bytes - past);
    skip = 0;
    if (alone) break;
  }
  return count;
}

void SendQueue::Advance(uint64_t bytes, uint64_t in_use) {
  sent_ += bytes;
  uint64_t head = head_.load(std::memory_order_relaxed);
  for (const uint64_t tail = tail_.load(std::memory_order_acquire); head != tail; ++head) {
    Slot& slot = slots_[head % kSlots];
    if (in_use != 0) slot.in_use = in_use;
    const uint64_t total = sizeof(Frame) + slot.frame.bytes;
    if (sent_ < total) break;
    sent_ -= total;
  }
  head_.store(head, std::memory_order_relaxed);
}

bool SendQueue::Finish(uint64_t finished, uint64_t* out_cookie) {
  const uint64_t done = done_.load(std::memory_order_relaxed);
  Slot& slot = slots_[done % kSlots];
  if (done == head_.load(std::memory_order_relaxed) || slot.in_use > finished) return false;
  *out_cookie = slot.cookie;
  slot.in_use = 0;
  done_.store(done + 1, std::memory_order_release);  // R1
  return true;
}

void SendQueue::Abandon() {
  head_.store(tail_.load(std::memory_order_acquire), std::memory_order_relaxed);
  sent_ = 0;
}

bool SendQueue::Drop(uint64_t* out_cookie) {
  Abandon();
  return Finish(UINT64_MAX, out_cookie);
}

}  // namespace sl::transport_tcp

// SPDX-License-Identifier: Apache-2.0
#include "modules/fault-inject/line.h"

#include <algorithm>
#include <new>
#include <utility>

namespace sl::fault_inject {

uint64_t Line::Send(const Settings& settings, uint64_t now_ns, uint64_t bytes) noexcept {
  const uint64_t start = std::max(now_ns, free_at_ns_);
  const uint64_t rate = settings.rate_bytes_per_second;
  const uint64_t on_wire_ns =
      rate == 0 ? 0 : static_cast<uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate));
  free_at_ns_ = start + std::max(on_wire_ns, settings.slow_us * 1000);
  last_due_ns_ = std::max(last_due_ns_, start + on_wire_ns + settings.delay_us * 1000);
  return last_due_ns_;
}

void Line::Append(const sl_put_t& put, const Settings& settings, uint64_t now_ns, int64_t flip_bit, bool yields) {
  Held held{put, {}, 0, yields};
  if (put.source != nullptr && put.region == nullptr && put.bytes != 0) {
    held.bytes = Copy(put.source, put.bytes);
    held.put.source = held.bytes.data();
    if (flip_bit >= 0) held.bytes[static_cast<size_t>(flip_bit) / 8] ^= static_cast<uint8_t>(1u << (flip_bit % 8));
  }
  const bool overtakes =
      !held_.empty() && held_.back().yields && put.signal == SL_NO_SIGNAL && held_.back().put.signal == SL_NO_SIGNAL;
  const bool goes_at_once = !settings.HasLine() && held_.empty();
  held_.push_back(std::move(held));
  if (!goes_at_once) held_.back().due_ns = Send(settings, now_ns, put.bytes);
  if (!overtakes) return;
  // They change places, but not their times.
  Held& last = held_.back();
  Held& before = *(held_.end() - 2);
  std::swap(before, last);
  std::swap(before.due_ns, last.due_ns);
  before.yields = last.yields = false;
}

void Line::PopFront() noexcept {
  Recycle(std::move(held_.front().bytes));
  held_.pop_front();
}

std::vector<uint8_t> Line::Copy(const void* source, uint64_t bytes) {
  std::vector<uint8_t> copy;
  if (!spare_.empty()) {
    copy = std::move(spare_.back());
    spare_.pop_back();
  }
  const auto* first = static_cast<const uint8_t*>(source);
  copy.assign(first, first + bytes);
  return copy;
}

void Line::Recycle(std::vector<uint8_t> bytes) noexcept {
  if (bytes.capacity() == 0) return;
  try {
    spare_.push_back(std::move(bytes));
  } catch (const std::bad_alloc&) {  // then there is one less
  }
}

}  // namespace sl::fault_inject

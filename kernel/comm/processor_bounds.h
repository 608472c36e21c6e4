// SPDX-License-Identifier: Apache-2.0
//
// How much of its device one operation of a communicator holds: processors are SMs. As in sl_comm_shape_t.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sl::kernel {

struct ProcessorBounds {
  // The most that a weight may be: a processor is worth an operation's whole time.
  static constexpr uint32_t kMostWeight = 1000;

  uint32_t least = 0;
  uint32_t most = 0;    // 0: not bound
  uint32_t weight = 0;  // what one is worth, in thousandths of the time that it is held
  uint32_t free = 0;    // 1: ways that hold none go before all others

  bool operator==(const ProcessorBounds&) const = default;
};

// The stricter of two upper bounds, of which 0 is none.
inline uint32_t StricterBound(uint32_t a, uint32_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// What two ranks agree on, and with a third in any order: the least bounds, so that nobody holds more than it was told
// to, and the greatest weight; and what any of them wants without processors.
inline ProcessorBounds Agreed(const ProcessorBounds& a, const ProcessorBounds& b) {
  return {std::min(a.least, b.least), StricterBound(a.most, b.most), std::max(a.weight, b.weight), a.free | b.free};
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Whether two ranges of memory share a byte.
#pragma once

#include <cstdint>

namespace sl {

// False where one of them is null.
inline bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return first != 0 && second != 0 && first < second + b_bytes && second < first + a_bytes;
}

}  // namespace sl

// SPDX-License-Identifier: Apache-2.0
//
// Vectors at addresses that are not aligned, of the aligned ones around them.
#pragma once

#include "sdk/device/vector.h"

namespace sl::dev {

// The vector that begins `shift` bytes, less than it has, behind the beginning of the first of two neighbours.
template <uint32_t kBytes>
SL_HD Vector<kBytes> Between(const Vector<kBytes>& first, const Vector<kBytes>& second, uint32_t shift) {
  Vector<kBytes> v;
#ifdef __CUDA_ARCH__
  constexpr uint32_t kWords = kBytes / 4;
  uint32_t word[2 * kWords];
  SL_UNROLL
  for (uint32_t i = 0; i < kWords; ++i) {
    word[i] = first.word[i];
    word[kWords + i] = second.word[i];
  }
  SL_UNROLL
  for (uint32_t by = kWords / 2; by != 0; by /= 2) {
    SL_UNROLL
    for (uint32_t i = 0; i + by < 2 * kWords; ++i) word[i] = (shift & 4 * by) != 0 ? word[i + by] : word[i];
  }
  SL_UNROLL
  for (uint32_t i = 0; i < kWords; ++i) v.word[i] = __funnelshift_r(word[i], word[i + 1], shift * 8);
#else
  uint8_t both[2 * kBytes];
  std::memcpy(both, &first, kBytes);
  std::memcpy(both + kBytes, &second, kBytes);
  std::memcpy(&v, both + shift, kBytes);
#endif
  return v;
}

}  // namespace sl::dev

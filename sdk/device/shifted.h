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

// To an address that is not aligned: in words, halves of them, or bytes.
SL_HD void StoreParts(uint8_t* to, const Vec16& v) {
#ifdef __CUDA_ARCH__
  const auto low = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to));
  SL_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    uint8_t* at = to + 4 * i;
    if (low % 4 == 0) {
      StorePart(at, v.word[i], 4);
    } else if (low % 2 == 0) {
      StorePart(at, v.word[i], 2);
      StorePart(at + 2, v.word[i] >> 16, 2);
    } else {
      SL_UNROLL
      for (uint32_t b = 0; b < 4; ++b) StorePart(at + b, v.word[i] >> (8 * b), 1);
    }
  }
#else
  std::memcpy(to, &v, sizeof(v));
#endif
}

}  // namespace sl::dev

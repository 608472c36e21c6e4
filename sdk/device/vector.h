// SPDX-License-Identifier: Apache-2.0
//
// Vectors of 8 and 16 bytes: how data moves between memory and registers. Protocol buffers are aligned; users' buffers
// are aligned to their elements only.
#pragma once

#include <cstdint>
#include <cstring>

#include "sdk/device/sync.h"

namespace sl::dev {

template <uint32_t kBytes>
struct alignas(kBytes) Vector {
  static_assert(kBytes == 8 || kBytes == 16);
  uint32_t word[kBytes / 4];
};
using Vec8 = Vector<8>;
using Vec16 = Vector<16>;

SL_HD bool IsAligned(const void* address, uint32_t bytes) {
  return (static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address)) & (bytes - 1)) == 0;
}

// Loads and stores of data keep their order among themselves and with what sync.h and block.h do, but claim no other
// memory: the compiler may keep arguments in registers across them.

// Memory that no other rank writes while it is read.
template <uint32_t kBytes>
SL_HD Vector<kBytes> LoadOwn(const uint8_t* from) {
  Vector<kBytes> v;
#ifdef __CUDA_ARCH__
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
                 : "l"(from));
  } else {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(from));
  }
#else
  std::memcpy(&v, from, kBytes);
#endif
  return v;
}

SL_HD uint32_t LoadOwnWord(const uint32_t* from) {
#ifdef __CUDA_ARCH__
  uint32_t word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from));
  return word;
#else
  return *from;
#endif
}

// Memory of a peer, once its flag has been awaited. Relaxed at system scope: a plain load might be served by this GPU's
// first-level cache.
SL_HD Vec16 LoadPeer(const uint8_t* from) {
  Vec16 v;
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
#else
  std::memcpy(&v, from, sizeof(v));
#endif
  return v;
}

template <uint32_t kBytes>
SL_HD void Store(uint8_t* to, const Vector<kBytes>& v) {
#ifdef __CUDA_ARCH__
  if constexpr (kBytes == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]),
                 "r"(v.word[3]));
  } else {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(v.word[0]), "r"(v.word[1]));
  }
#else
  std::memcpy(to, &v, kBytes);
#endif
}

// Words at an address aligned to them, all under way together: as many as `valid` bytes hold, the others become 0.
template <uint32_t kBytes>
SL_HD Vector<kBytes> LoadWords(const uint8_t* from, uint32_t valid) {
  Vector<kBytes> v{};
  SL_UNROLL
  for (uint32_t i = 0; i < kBytes / 4; ++i) {
    if (4 * i + 4 <= valid) v.word[i] = LoadOwnWord(reinterpret_cast<const uint32_t*>(from) + i);
  }
  return v;
}
template <uint32_t kBytes>
SL_HD void StoreWords(uint8_t* to, const Vector<kBytes>& v, uint32_t valid) {
  SL_UNROLL
  for (uint32_t i = 0; i < kBytes / 4; ++i) {
    if (4 * i + 4 <= valid) reinterpret_cast<uint32_t*>(to)[i] = v.word[i];
  }
}
SL_HD bool IsInWords(const uint8_t* address, uint32_t bytes) { return IsAligned(address, 4) && bytes % 4 == 0; }

// A word, or its lower half or quarter: 4, 2 or 1 bytes at an address aligned to them. What is not loaded becomes 0.
SL_HD uint32_t LoadPart(const uint8_t* from, uint32_t bytes) {
#ifdef __CUDA_ARCH__
  if (bytes == 4) return LoadOwnWord(reinterpret_cast<const uint32_t*>(from));
  return bytes == 2 ? *reinterpret_cast<const uint16_t*>(from) : *from;
#else
  uint32_t word = 0;
  std::memcpy(&word, from, bytes);
  return word;
#endif
}
SL_HD void StorePart(uint8_t* to, uint32_t word, uint32_t bytes) {
#ifdef __CUDA_ARCH__
  if (bytes == 4) {
    *reinterpret_cast<uint32_t*>(to) = word;
  } else if (bytes == 2) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(word);
  } else {
    *to = static_cast<uint8_t>(word);
  }
#else
  std::memcpy(to, &word, bytes);
#endif
}

// Assembles a vector from pieces as wide as the address allows; `valid` of its bytes exist, the others become 0.
template <uint32_t kBytes>
SL_HD Vector<kBytes> LoadAny(const uint8_t* from, uint32_t valid) {
  Vector<kBytes> v{};
#ifdef __CUDA_ARCH__
  if (valid >= kBytes && IsAligned(from, kBytes)) return LoadOwn<kBytes>(from);
  if (IsInWords(from, valid)) return LoadWords<kBytes>(from, valid);
  const bool by_word = IsAligned(from, 4);
  const bool by_half = IsAligned(from, 2);
  SL_UNROLL
  for (uint32_t at = 0; at < kBytes; at += 4) {
    uint32_t& word = v.word[at / 4];
    if (by_word && at + 4 <= valid) {
      word = *reinterpret_cast<const uint32_t*>(from + at);
    } else if (by_half && at + 4 <= valid) {
      word = *reinterpret_cast<const uint16_t*>(from + at) |
             static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(from + at + 2)) << 16;
    } else {
      SL_UNROLL
      for (uint32_t b = 0; b < 4; ++b) {
        if (at + b < valid) word |= static_cast<uint32_t>(from[at + b]) << (8 * b);
      }
    }
  }
#else
  std::memcpy(&v, from, valid < kBytes ? valid : kBytes);
#endif
  return v;
}

// The reverse: the first `valid` bytes of a vector.
template <uint32_t kBytes>
SL_HD void StoreAny(uint8_t* to, const Vector<kBytes>& v, uint32_t valid) {
#ifdef __CUDA_ARCH__
  if (valid >= kBytes && IsAligned(to, kBytes)) return Store<kBytes>(to, v);
  if (IsInWords(to, valid)) return StoreWords(to, v, valid);
  const bool by_word = IsAligned(to, 4);
  const bool by_half = IsAligned(to, 2);
  SL_UNROLL
  for (uint32_t at = 0; at < kBytes; at += 4) {
    const uint32_t word = v.word[at / 4];
    if (by_word && at + 4 <= valid) {
      *reinterpret_cast<uint32_t*>(to + at) = word;
    } else if (by_half && at + 4 <= valid) {
      *reinterpret_cast<uint16_t*>(to + at) = static_cast<uint16_t>(word);
      *reinterpret_cast<uint16_t*>(to + at + 2) = static_cast<uint16_t>(word >> 16);
    } else {
      SL_UNROLL
      for (uint32_t b = 0; b < 4; ++b) {
        if (at + b < valid) to[at + b] = static_cast<uint8_t>(word >> (8 * b));
      }
    }
  }
#else
  std::memcpy(to, &v, valid < kBytes ? valid : kBytes);
#endif
}

}  // namespace sl::dev

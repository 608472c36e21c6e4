// SPDX-License-Identifier: Apache-2.0
//
// Packets that say themselves that they have come: 8 bytes of data between two copies of a flag, stored and loaded as
// one vector of two 8-byte halves. Each half arrives whole, which PTX promises of a vector's elements, and carries its
// flag, so no fence orders anything.
#pragma once

#include "sdk/device/vector.h"

namespace sl::dev {

struct alignas(16) LlPacket {
  uint64_t half[2];  // data in the low, flag in the high 32 bits
};
static_assert(sizeof(LlPacket) == 16);

// Epochs are flags, so never 0, which fresh memory holds; they alternate between odd and even also where they wrap. The
// largest number is no epoch either; 0 comes after it.
SL_HD uint32_t NextEpoch(uint32_t epoch) { return epoch == UINT32_MAX - 1 ? 1 : epoch + 1; }

SL_HD void StorePacket(LlPacket* to, const Vec8& data, uint32_t flag) {
  uint64_t half[2];
  SL_UNROLL
  for (uint32_t i = 0; i < 2; ++i) half[i] = data.word[i] | static_cast<uint64_t>(flag) << 32;
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(to), "l"(half[0]), "l"(half[1]) : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) StoreRelease(&to->half[i], half[i]);
#endif
}

// One look; true when the whole packet of this flag is there.
SL_HD bool PollPacket(const LlPacket* from, uint32_t flag, Vec8* data, uint32_t* seen) {
  uint64_t half[2];
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(half[0]), "=l"(half[1]) : "l"(from) : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) half[i] = LoadAcquire(&from->half[i]);
#endif
  uint32_t flags[2];
  SL_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    data->word[i] = static_cast<uint32_t>(half[i]);
    flags[i] = static_cast<uint32_t>(half[i] >> 32);
  }
  *seen = flags[1];
  return flags[0] == flag && flags[1] == flag;
}

}  // namespace sl::dev

// SPDX-License-Identifier: Apache-2.0
//
// Packets that say themselves that they have come: 8 bytes of data between two copies of a flag, stored and loaded as
// one 16-byte vector. Only 8-byte halves need to arrive whole, and each carries its flag, so no fence orders anything.
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
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %3, %2, %3};" ::"l"(to), "r"(data.word[0]), "r"(data.word[1]),
               "r"(flag)
               : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) StoreRelease(&to->half[i], data.word[i] | static_cast<uint64_t>(flag) << 32);
#endif
}

// One look; true when the whole packet of this flag is there.
SL_HD bool PollPacket(const LlPacket* from, uint32_t flag, Vec8* data, uint32_t* seen) {
  uint32_t flags[2];
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(data->word[0]), "=r"(flags[0]), "=r"(data->word[1]), "=r"(flags[1])
               : "l"(from)
               : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) {
    const uint64_t half = LoadAcquire(&from->half[i]);
    data->word[i] = static_cast<uint32_t>(half);
    flags[i] = static_cast<uint32_t>(half >> 32);
  }
#endif
  *seen = flags[1];
  return flags[0] == flag && flags[1] == flag;
}

}  // namespace sl::dev

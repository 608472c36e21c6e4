// SPDX-License-Identifier: Apache-2.0
//
// Packets that are all data: 16 bytes, of which each 8-byte half has come once it is not blank any more (readiness by
// a reserved value, as TensorRT-LLM's "Lamport" kernels have it). Halves need to arrive whole, nothing else, and no
// flag takes room. The reader makes the packet blank again.
//
// Blank is 0, which fresh memory holds. Data travels with a mask over it, so that it is blank only where it equals the
// mask; then something else travels in its stead, and a note beside the packets says so. A note is a word that is not
// blank either.
#pragma once

#include "sdk/device/vector.h"

namespace sl::dev {

struct alignas(16) LamportPacket {
  uint64_t half[2];
};
static_assert(sizeof(LamportPacket) == 16);

// The fraction of the square root of 2, so no number that programs fill memory with.
constexpr uint64_t kLamportMask = 0x6A09E667F3BCC908;
constexpr uint64_t kLamportStandIn = 1;  // travels for a half that would be blank

SL_HD uint64_t HalfOf(const Vec16& v, uint32_t i) {
  return v.word[2 * i] | static_cast<uint64_t>(v.word[2 * i + 1]) << 32;
}

// Stores a packet; returns which halves arrive as something else, bit i for half i.
SL_HD uint32_t StoreLamport(LamportPacket* to, const Vec16& data) {
  uint64_t half[2];
  uint32_t replaced = 0;
  SL_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    half[i] = HalfOf(data, i) ^ kLamportMask;
    if (half[i] != 0) continue;
    half[i] = kLamportStandIn;
    replaced |= 1u << i;
  }
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(half[0]), "l"(half[1]) : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) StoreRelease(&to->half[i], half[i]);
#endif
  return replaced;
}

// One look at a packet as it travels. Apart from what is made of it, so that several looks can be under way at a time.
SL_HD void LookAtLamport(const LamportPacket* from, LamportPacket* seen) {
#ifdef __CUDA_ARCH__
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(seen->half[0]), "=l"(seen->half[1])
               : "l"(from)
               : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) seen->half[i] = LoadAcquire(&from->half[i]);
#endif
}
SL_HD bool IsThere(const LamportPacket& seen) { return seen.half[0] != 0 && seen.half[1] != 0; }

// The data of a packet that is there, of which these halves travelled as something else.
SL_HD Vec16 DataOf(const LamportPacket& seen, uint32_t replaced) {
  Vec16 data;
  SL_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    const uint64_t half = (replaced >> i & 1) != 0 ? kLamportMask : seen.half[i] ^ kLamportMask;
    data.word[2 * i] = static_cast<uint32_t>(half);
    data.word[2 * i + 1] = static_cast<uint32_t>(half >> 32);
  }
  return data;
}

// By who has read it; the sender writes it again after the reader's kernel has ended.
SL_HD void MakeBlank(LamportPacket* packet) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %1};" ::"l"(packet), "l"(uint64_t{0}) : "memory");
#else
  for (uint32_t i = 0; i < 2; ++i) StoreRelease(&packet->half[i], 0);
#endif
}

}  // namespace sl::dev

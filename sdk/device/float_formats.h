// SPDX-License-Identifier: Apache-2.0
//
// Conversions between float32 and the small float formats, one value at a time: float16 (IEEE) and bfloat16; float8 is
// in float8_formats.h. device-host's vector kernels compute the same bits; a GPU does in hardware what it can, which
// differs in the payload of NaNs alone.
//
// Encoding rounds to nearest even. A NaN stays a NaN. float16 and bfloat16 overflow to infinity; the 8-bit formats
// saturate to their largest finite value, 448 and 57344, infinities included, as CUDA's fp8 types do by default.
#pragma once

#include <cstdint>

#include "sdk/device/sync.h"

namespace sl::dev {

template <typename To, typename From>
SL_HD constexpr To BitCast(From from) {
  return __builtin_bit_cast(To, from);
}

#ifdef __CUDA_ARCH__
// Hardware conversions.
inline __device__ float HalfToFloat(uint16_t code) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
  return value;
}
inline __device__ uint16_t FloatToHalf(float value) {
  uint16_t code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
}
inline __device__ uint16_t FloatToBFloat(float value) {
  uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
}
#endif

// A format narrower than bfloat16: a sign, exponent bits, kMantissa mantissa bits.
template <typename LaneT, int kMantissaBits, int kExponentBias, uint32_t kLargest, uint32_t kInfinityCode,
          uint32_t kNanCode, uint32_t kNanPayload>
struct SmallFloat {
  using Lane = LaneT;
  static constexpr int kMantissa = kMantissaBits;
  static constexpr int kShift = 23 - kMantissa;  // from a float32 mantissa to this one
  static constexpr uint32_t kSign = 1u << (8 * sizeof(Lane) - 1);
  static constexpr uint32_t kMax = kLargest;            // what overflow becomes
  static constexpr uint32_t kInfinity = kInfinityCode;  // the largest code that is not a NaN
  static constexpr uint32_t kNan = kNanCode;
  static constexpr uint32_t kPayload = kNanPayload;  // bits of a NaN's payload that survive encoding
  static constexpr bool kHasInfinity = (kInfinity & ((1u << kMantissa) - 1)) == 0;
  // Difference of the exponent biases, and the smallest normal value, both as float32 bits.
  static constexpr uint32_t kRebias = (127u - kExponentBias) << 23;
  static constexpr uint32_t kMinNormal = (128u - kExponentBias) << 23;
  // A float32 whose last mantissa bit is worth one subnormal step: adding it makes the FPU round a subnormal.
  static constexpr uint32_t kMagic = (127u - kExponentBias + kShift + 1u) << 23;

  SL_HD static float Decode(Lane code) {
    const uint32_t sign = (code & kSign) << (32 - 8 * sizeof(Lane));
    const uint32_t magnitude = code & (kSign - 1);
    const uint32_t shifted = magnitude << kShift;
    uint32_t bits = shifted + kRebias;
    if (magnitude > kInfinity || (kHasInfinity && magnitude == kInfinity)) {
      bits = 0x7F800000u | (kHasInfinity ? shifted : 0x00400000u);
    } else if (shifted < (1u << 23)) {
      bits = BitCast<uint32_t>(BitCast<float>(shifted + kMinNormal) - BitCast<float>(kMinNormal));
    }
    return BitCast<float>(bits | sign);
  }

  SL_HD static Lane Encode(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t code;
    if (magnitude > 0x7F800000u) {
      code = kNan | ((magnitude >> kShift) & kPayload);
    } else if (magnitude < kMinNormal) {
      code = BitCast<uint32_t>(BitCast<float>(magnitude) + BitCast<float>(kMagic)) - kMagic;
    } else {
      const uint32_t odd = (magnitude >> kShift) & 1;
      code = (magnitude + odd + (1u << (kShift - 1)) - 1 - kRebias) >> kShift;
      code = code < kMax ? code : kMax;
    }
    return static_cast<Lane>(code | ((bits >> (32 - 8 * sizeof(Lane))) & kSign));
  }

  // The four codes of a word, of a format of a byte.
  SL_HD static uint32_t EncodeWord(const float (&values)[4]) {
    uint32_t word = 0;
    SL_UNROLL
    for (uint32_t i = 0; i < 4; ++i) word |= static_cast<uint32_t>(Encode(values[i])) << (8 * i);
    return word;
  }
};

struct Float16 : SmallFloat<uint16_t, 10, 15, 0x7C00, 0x7C00, 0x7E00, 0x03FF> {
#ifdef __CUDA_ARCH__
  SL_HD static float Decode(Lane code) { return HalfToFloat(code); }
  SL_HD static Lane Encode(float value) { return FloatToHalf(value); }
#endif
};

// The upper half of a float32.
struct BFloat16 {
  using Lane = uint16_t;
  static constexpr uint32_t kInfinity = 0x7F80;

  SL_HD static float Decode(Lane code) { return BitCast<float>(uint32_t{code} << 16); }

  SL_HD static Lane Encode(float value) {
#ifdef __CUDA_ARCH__
    return FloatToBFloat(value);
#else
    const uint32_t bits = BitCast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<Lane>((bits >> 16) | 0x40);
    return static_cast<Lane>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
#endif
  }
};

}  // namespace sl::dev

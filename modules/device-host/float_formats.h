// SPDX-License-Identifier: Apache-2.0
// Conversions between float32 and the small float formats, one value at a time: float16 (IEEE), bfloat16, float8 e4m3
// (no infinity) and float8 e5m2. The vector kernels of reduce_float.cc compute the same bits.
//
// Encoding rounds to nearest even. A NaN stays a NaN. float16 and bfloat16 overflow to infinity; the 8-bit formats
// saturate to their largest finite value, 448 and 57344, infinities included, as CUDA's fp8 types do by default.
#ifndef STARLING_MODULES_DEVICE_HOST_FLOAT_FORMATS_H_
#define STARLING_MODULES_DEVICE_HOST_FLOAT_FORMATS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace sl::device_host {

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

  static float Decode(Lane code) {
    const uint32_t sign = (code & kSign) << (32 - 8 * sizeof(Lane));
    const uint32_t magnitude = code & (kSign - 1);
    const uint32_t shifted = magnitude << kShift;
    uint32_t bits = shifted + kRebias;
    if (magnitude > kInfinity || (kHasInfinity && magnitude == kInfinity)) {
      bits = 0x7F800000u | (kHasInfinity ? shifted : 0x00400000u);
    } else if (shifted < (1u << 23)) {
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted + kMinNormal) - std::bit_cast<float>(kMinNormal));
    }
    return std::bit_cast<float>(bits | sign);
  }

  static Lane Encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t code;
    if (magnitude > 0x7F800000u) {
      code = kNan | ((magnitude >> kShift) & kPayload);
    } else if (magnitude < kMinNormal) {
      code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic)) - kMagic;
    } else {
      const uint32_t odd = (magnitude >> kShift) & 1;
      code = std::min((magnitude + odd + (1u << (kShift - 1)) - 1 - kRebias) >> kShift, kMax);
    }
    return static_cast<Lane>(code | ((bits >> (32 - 8 * sizeof(Lane))) & kSign));
  }
};

using Float16 = SmallFloat<uint16_t, 10, 15, 0x7C00, 0x7C00, 0x7E00, 0x03FF>;
using Float8E4M3 = SmallFloat<uint8_t, 3, 7, 0x7E, 0x7E, 0x7F, 0>;
using Float8E5M2 = SmallFloat<uint8_t, 2, 15, 0x7B, 0x7C, 0x7F, 0>;

// The upper half of a float32.
struct BFloat16 {
  using Lane = uint16_t;
  static constexpr uint32_t kInfinity = 0x7F80;

  static float Decode(Lane code) { return std::bit_cast<float>(uint32_t{code} << 16); }

  static Lane Encode(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<Lane>((bits >> 16) | 0x40);
    return static_cast<Lane>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
};

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_FLOAT_FORMATS_H_

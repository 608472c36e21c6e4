// SPDX-License-Identifier: Apache-2.0
//
// Conversions between float32 and float8: e4m3 (no infinity) and e5m2, one value at a time or the four of a word.
#pragma once

#include "sdk/device/float_formats.h"

namespace sl::dev {

// Four of the eight bytes of `low` and `high`: each digit of `selector` numbers one, the last digit the lowest.
SL_HD uint32_t SelectBytes(uint32_t low, uint32_t high, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const uint64_t bytes = low | static_cast<uint64_t>(high) << 32;
  uint32_t selected = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    selected |= static_cast<uint32_t>((bytes >> (8 * (selector >> (4 * i) & 7))) & 0xFF) << (8 * i);
  }
  return selected;
#endif
}

// Two registers of two float16 each, the lower half first.
SL_HD void HalvesToFloats(const uint32_t (&pairs)[2], float (&values)[4]) {
  SL_UNROLL
  for (uint32_t i = 0; i < 4; ++i) values[i] = Float16::Decode(static_cast<uint16_t>(pairs[i / 2] >> (16 * (i % 2))));
}

// Of bytes, a word at a time: `pairs` are its lanes as float16, which has all their values, two in a register.
struct Float8E4M3 : SmallFloat<uint8_t, 3, 7, 0x7E, 0x7E, 0x7F, 0> {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  SL_HD static float Decode(Lane code) { return HalfToFloat(static_cast<uint16_t>(PairOf(code))); }
  SL_HD static Lane Encode(float value) { return static_cast<Lane>(CodesOf(value, 0)); }
  SL_HD static void ToHalves(uint32_t word, uint32_t (&pairs)[2]) {
    pairs[0] = PairOf(static_cast<uint16_t>(word));
    pairs[1] = PairOf(static_cast<uint16_t>(word >> 16));
  }
  SL_HD static uint32_t FromHalves(const uint32_t (&pairs)[2]) {
    return CodesOf(pairs[0]) | static_cast<uint32_t>(CodesOf(pairs[1])) << 16;
  }
  SL_HD static uint32_t EncodeWord(const float (&values)[4]) {
    return CodesOf(values[0], values[1]) | static_cast<uint32_t>(CodesOf(values[2], values[3])) << 16;
  }

 private:
  SL_HD static uint32_t PairOf(uint16_t codes) {
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(codes));
    return pair;
  }
  SL_HD static uint16_t CodesOf(uint32_t pair) {
    uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(codes) : "r"(pair));
    return codes;
  }
  SL_HD static uint16_t CodesOf(float lower, float upper) {
    uint16_t codes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(upper), "f"(lower));
    return codes;
  }
#else
  SL_HD static void ToHalves(uint32_t word, uint32_t (&pairs)[2]) {
    SL_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t lower = Float16::Encode(Decode(static_cast<Lane>(word >> (16 * i))));
      const uint32_t upper = Float16::Encode(Decode(static_cast<Lane>(word >> (16 * i + 8))));
      pairs[i] = lower | upper << 16;
    }
  }
  SL_HD static uint32_t FromHalves(const uint32_t (&pairs)[2]) {
    float values[4];
    HalvesToFloats(pairs, values);
    return EncodeWord(values);
  }
#endif
};

// The upper byte of a float16.
struct Float8E5M2 : SmallFloat<uint8_t, 2, 15, 0x7B, 0x7C, 0x7F, 0> {
  SL_HD static void ToHalves(uint32_t word, uint32_t (&pairs)[2]) {
    pairs[0] = SelectBytes(word, 0, 0x1404);
    pairs[1] = SelectBytes(word, 0, 0x3424);
  }
  SL_HD static uint32_t FromHalves(const uint32_t (&pairs)[2]) { return SelectBytes(pairs[0], pairs[1], 0x7531); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  SL_HD static float Decode(Lane code) { return HalfToFloat(static_cast<uint16_t>(code << 8)); }
  SL_HD static Lane Encode(float value) { return static_cast<Lane>(CodesOf(value, 0)); }
  SL_HD static uint32_t EncodeWord(const float (&values)[4]) {
    return CodesOf(values[0], values[1]) | static_cast<uint32_t>(CodesOf(values[2], values[3])) << 16;
  }

 private:
  SL_HD static uint16_t CodesOf(float lower, float upper) {
    uint16_t codes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(upper), "f"(lower));
    return codes;
  }
#endif
};

}  // namespace sl::dev

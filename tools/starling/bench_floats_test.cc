// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_floats.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sl::tools {
namespace {

template <typename Format>
void ExpectRoundTrip(unsigned patterns) {
  for (unsigned bits = 0; bits < patterns; ++bits) {
    const double value = Format::Decode(static_cast<typename Format::Bits>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(Format::Encode(value), bits) << value;
  }
}

TEST(SmallFloat, EncodesWhatItDecoded) {
  ExpectRoundTrip<Float16>(1u << 16);
  ExpectRoundTrip<Bfloat16>(1u << 16);
  ExpectRoundTrip<Float8E4M3>(1u << 8);
  ExpectRoundTrip<Float8E5M2>(1u << 8);
}

TEST(SmallFloat, KnowsTheCornersOfEachFormat) {
  EXPECT_EQ(Float16::Max(), 65504);
  EXPECT_EQ(Float8E4M3::Max(), 448);
  EXPECT_EQ(Float8E5M2::Max(), 57344);
  EXPECT_EQ(Float8E4M3::Decode(0x01), std::ldexp(1.0, -9));
  EXPECT_EQ(Float8E5M2::Decode(0x01), std::ldexp(1.0, -16));
  EXPECT_TRUE(std::isnan(Float8E4M3::Decode(0x7f)));
  EXPECT_TRUE(std::isinf(Float8E5M2::Decode(0x7c)));
  EXPECT_EQ(Float8E4M3::Encode(1000), 0x7f);  // it has no infinity
  EXPECT_EQ(Float8E5M2::Encode(-1e9), 0xfc);
}

TEST(SmallFloat, RoundsTiesToEven) {
  EXPECT_EQ(Float8E4M3::Decode(Float8E4M3::Encode(17)), 16);    // between 16 and 18
  EXPECT_EQ(Float8E4M3::Decode(Float8E4M3::Encode(19)), 20);    // between 18 and 20
  EXPECT_EQ(Float8E4M3::Decode(Float8E4M3::Encode(464)), 448);  // a tie downwards still fits
  EXPECT_EQ(Float16::Decode(Float16::Encode(2049)), 2048);
  EXPECT_EQ(Float16::Decode(Float16::Encode(2051)), 2052);
}

#ifdef __FLT16_MANT_DIG__
TEST(SmallFloat, AgreesWithTheCompilersHalf) {
  uint32_t state = 12345;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    uint32_t bits = (state & 0x807fffff) | ((state >> 8) % 40 + 100) << 23;  // around half's range
    float value;
    std::memcpy(&value, &bits, sizeof value);
    const _Float16 native = static_cast<_Float16>(value);
    uint16_t expected;
    std::memcpy(&expected, &native, sizeof expected);
    ASSERT_EQ(Float16::Encode(value), expected) << value;
  }
}
#endif

}  // namespace
}  // namespace sl::tools

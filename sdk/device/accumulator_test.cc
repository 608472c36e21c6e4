// SPDX-License-Identifier: Apache-2.0
// Packed reductions against lanes reduced one by one: every pair of codes of a byte, and random words of all formats.
#include "sdk/device/accumulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace sl::dev {
namespace {

template <sl_datatype_t kType>
struct Tag {
  using Format = FormatOf<kType>;
};

template <typename T>
class PackedReductions : public ::testing::Test {};

using Packed = ::testing::Types<Tag<SL_INT8>, Tag<SL_UINT8>, Tag<SL_FLOAT16>, Tag<SL_BFLOAT16>, Tag<SL_FLOAT8E4M3>,
                                Tag<SL_FLOAT8E5M2>>;
TYPED_TEST_SUITE(PackedReductions, Packed);

template <typename F>
bool IsSame(typename F::Lane a, typename F::Lane b) {
  if constexpr (std::is_floating_point_v<typename F::Acc>) {
    if (std::isnan(F::Decode(a)) && std::isnan(F::Decode(b))) return true;
  }
  return a == b;
}

template <typename F, sl_reduction_t kReduction>
void Compare(const std::vector<Vec16>& contributions, uint32_t world) {
  LaneAccumulator<F, kReduction, 16> lanes;
  Accumulator<F, kReduction, 16> packed;
  for (size_t r = 0; r < contributions.size(); ++r) {
    if (r == 0) {
      lanes.Start(contributions[r]);
      packed.Start(contributions[r]);
    } else {
      lanes.Add(contributions[r]);
      packed.Add(contributions[r]);
    }
  }
  const Vec16 expected = lanes.Finish(world);
  const Vec16 found = packed.Finish(world);
  using Lane = typename F::Lane;
  for (uint32_t i = 0; i < kLanesOf<F, 16>; ++i) {
    const Lane a = GetLane<Lane>(expected, i);
    const Lane b = GetLane<Lane>(found, i);
    ASSERT_TRUE((IsSame<F>(a, b))) << "reduction " << kReduction << " of " << contributions.size() << " over " << world
                                   << ", lane " << i << ": " << +a << " one by one, " << +b << " packed; the first "
                                   << +GetLane<Lane>(contributions[0], i);
  }
}

template <typename F>
void CompareAll(const std::vector<Vec16>& contributions) {
  Compare<F, SL_PROD>(contributions, 0);
  Compare<F, SL_MAX>(contributions, 0);
  Compare<F, SL_MIN>(contributions, 0);
  for (const uint32_t world : {0u, 1u, 2u, 3u, 8u}) Compare<F, SL_SUM>(contributions, world);
}

TYPED_TEST(PackedReductions, AreThoseOfLanesForEveryPairOfBytes) {
  using F = typename TypeParam::Format;
  for (uint32_t pair = 0; pair < 65536; pair += 16) {
    std::vector<Vec16> contributions(2, Vec16{});
    for (uint32_t i = 0; i < 16; ++i) {
      // Neighbours differ, so that what leaks from a lane into the next one is seen.
      const uint32_t code = (pair + i) * 40503 % 65536;
      contributions[0].word[i / 4] |= (code & 0xFF) << (8 * (i % 4));
      contributions[1].word[i / 4] |= (code >> 8) << (8 * (i % 4));
    }
    CompareAll<F>(contributions);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(PackedReductions, AreThoseOfLanesForManyContributions) {
  using F = typename TypeParam::Format;
  std::mt19937 random(20261123);
  for (uint32_t turn = 0; turn < 4000; ++turn) {
    std::vector<Vec16> contributions(1 + turn % 9);
    for (Vec16& one : contributions) {
      for (uint32_t& word : one.word) word = static_cast<uint32_t>(random());
    }
    CompareAll<F>(contributions);
    if (this->HasFatalFailure()) return;
  }
}

TEST(PackedReductionsAreUsed, WhereLanesAreNarrow) {
  EXPECT_TRUE((std::is_same_v<PackedOf<FormatOf<SL_UINT8>, SL_SUM>, ByteSums<FormatOf<SL_UINT8>>>));
  EXPECT_TRUE(
      (std::is_same_v<PackedOf<FormatOf<SL_FLOAT8E4M3>, SL_SUM>, ByteFloatSums<FormatOf<SL_FLOAT8E4M3>, SL_SUM>>));
  EXPECT_TRUE((std::is_same_v<PackedOf<FormatOf<SL_BFLOAT16>, SL_MAX>, HalfExtrema<FormatOf<SL_BFLOAT16>, SL_MAX>>));
  EXPECT_TRUE((std::is_void_v<PackedOf<FormatOf<SL_INT8>, SL_PROD>>));
  EXPECT_TRUE((std::is_void_v<PackedOf<FormatOf<SL_FLOAT32>, SL_MAX>>));
}

}  // namespace
}  // namespace sl::dev

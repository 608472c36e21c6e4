// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/part.h"

#include <gtest/gtest.h>

#include <vector>

namespace sl::kernel {
namespace {

TEST(Part, CoversEveryElementOfEveryBlockOnce) {
  for (uint64_t total = 0; total <= 40; ++total) {
    for (uint64_t stride = 1; stride <= 12; ++stride) {
      for (uint64_t length = 0; length <= stride; ++length) {
        for (uint64_t chunk = 1; chunk <= 13; ++chunk) {
          const sl_geometry_t geometry{stride, length, total};
          std::vector<int> seen(total, 0);
          for (uint32_t block = 0; block * stride <= total; ++block) {
            for (uint64_t round = 0; round < RoundsFor(length, chunk); ++round) {
              const Part part = PartOf(geometry, block, chunk, round);
              ASSERT_LE(part.elements, chunk);
              for (uint64_t i = 0; i < part.elements; ++i) ++seen.at(part.offset + i);
            }
          }
          for (uint64_t i = 0; i < total; ++i) ASSERT_EQ(seen[i], i % stride < length ? 1 : 0);
        }
      }
    }
  }
}

TEST(Part, IsEmptyBeyondTheRoundsThatABlockNeeds) {
  for (uint64_t length = 0; length <= 20; ++length) {
    const sl_geometry_t geometry{20, length, 35};
    for (uint32_t block = 0; block < 4; ++block) {
      const uint64_t rounds = RoundsFor(BlockLength(geometry, block), 6);
      for (uint64_t round = 0; round < rounds; ++round) EXPECT_NE(PartOf(geometry, block, 6, round).elements, 0u);
      for (uint64_t round = rounds; round < 9; ++round) EXPECT_EQ(PartOf(geometry, block, 6, round).elements, 0u);
    }
  }
}

TEST(Part, LengthOfABlockIsCutAtTheTotal) {
  const sl_geometry_t geometry{10, 8, 25};
  EXPECT_EQ(BlockLength(geometry, 0), 8u);
  EXPECT_EQ(BlockLength(geometry, 1), 8u);
  EXPECT_EQ(BlockLength(geometry, 2), 5u);
  EXPECT_EQ(BlockLength(geometry, 3), 0u);
}

TEST(Part, HandlesLargeNumbers) {
  const uint64_t huge = uint64_t{1} << 50;
  const sl_geometry_t geometry{huge, huge, huge * 100 + 3};
  EXPECT_EQ(BlockLength(geometry, 100), 3u);
  const Part part = PartOf(geometry, 100, 2, 1);
  EXPECT_EQ(part.offset, huge * 100 + 2);
  EXPECT_EQ(part.elements, 1u);
}

TEST(BlockAt, StepsModuloTheNumberOfBlocks) {
  for (uint32_t modulus = 1; modulus <= 12; ++modulus) {
    for (uint32_t block = 0; block < modulus; ++block) {
      for (int32_t step = -25; step <= 25; ++step) {
        int64_t plain = block;
        for (uint64_t repetition = 0; repetition < 30; ++repetition) {
          ASSERT_EQ(BlockAt(block, step, repetition, modulus), plain);
          plain = ((plain + step) % modulus + modulus) % modulus;
        }
      }
    }
  }
}

TEST(BlockAt, DoesNotOverflow) {
  const uint32_t modulus = UINT32_MAX;
  EXPECT_LT(BlockAt(modulus - 1, INT32_MIN, UINT64_MAX, modulus), modulus);
  EXPECT_LT(BlockAt(modulus - 1, INT32_MAX, UINT64_MAX, modulus), modulus);
}

}  // namespace
}  // namespace sl::kernel

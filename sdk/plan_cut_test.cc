// SPDX-License-Identifier: Apache-2.0
#include "sdk/plan_cut.h"

#include <gtest/gtest.h>

namespace sl {
namespace {

constexpr uint64_t kChunkBytes = 131072;
// What Linux sends at once with jumbo frames, and a chunk's header and its frame.
constexpr uint64_t kPacketBytes = 7 * 8948;
constexpr uint64_t kHeaderBytes = 40 + 32;

TEST(CutEvenly, CoversTheBlockWithChunksThatFit) {
  const uint64_t longest = LongestChunk(kChunkBytes, 4);
  for (const uint64_t length : {1ull, 15ull, 1000ull, 32768ull, 32769ull, 262143ull, 262144ull, 16777216ull}) {
    for (const uint64_t rounds : {1ull, 4ull, 100ull}) {
      const Pieces pieces = CutEvenly(length, rounds, longest);
      EXPECT_LE(pieces.chunk, longest) << length;
      EXPECT_GE(pieces.chunk * pieces.rounds, length);
      EXPECT_LT(pieces.chunk * (pieces.rounds - 1), length) << "an empty round";
    }
  }
  EXPECT_EQ(0u, CutEvenly(0, 4, longest).rounds);
}

TEST(CutEvenly, KeepsTheLongestChunksWhereTheyAreFew) {
  EXPECT_EQ(2u, CutEvenly(2 * kChunkBytes, 1, kChunkBytes).rounds);
  EXPECT_EQ(kChunkBytes, CutEvenly(4 * kChunkBytes, 1, kChunkBytes).chunk);
}

TEST(CutEvenly, FillsPacketsWhereChunksAreMany) {
  for (const uint64_t element_bytes : {1ull, 2ull, 4ull, 8ull}) {
    const uint64_t length = (uint64_t{64} << 20) / element_bytes;
    const Pieces pieces = CutEvenly(length, 1, LongestChunk(kChunkBytes, element_bytes));
    EXPECT_LE(pieces.chunk * element_bytes + kHeaderBytes, 2 * kPacketBytes);
    EXPECT_GE(pieces.chunk * element_bytes, kChunkBytes * 9 / 10);
  }
}

TEST(CutEvenly, LeavesShortChunksOfManyRoundsAsTheyAre) {
  constexpr uint64_t kShort = 64;
  EXPECT_EQ(kShort, CutEvenly(100 * kShort, 1, kShort).chunk);
}

}  // namespace
}  // namespace sl

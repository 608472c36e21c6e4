// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/contributions.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

Bytes All(const std::vector<uint32_t>& ranks) {
  Writer out;
  for (const uint32_t rank : ranks) PutContribution(&out, rank, Bytes(rank, static_cast<uint8_t>(rank)));
  return out.Take();
}

TEST(Contributions, ComeOutInTheOrderOfRanks) {
  const auto read = Contributions::Read(All({2, 0, 1}), 3);
  ASSERT_TRUE(read.ok()) << read.status().message();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const std::span<const uint8_t> bytes = read.value()[rank];
    EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), Bytes(rank, static_cast<uint8_t>(rank)));
  }
}

TEST(Contributions, AreRefusedUnlessEveryRankIsThereOnce) {
  EXPECT_FALSE(Contributions::Read(All({0, 1, 1}), 3).ok());
  EXPECT_FALSE(Contributions::Read(All({0, 1, 3}), 3).ok());
  EXPECT_FALSE(Contributions::Read(All({0, 1}), 3).ok());
  EXPECT_FALSE(Contributions::Read(All({0, 1, 2, 2}), 3).ok());
  const Bytes whole = All({0, 1, 2});
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(Contributions::Read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)), 3).ok())
        << bytes;
  }
  EXPECT_FALSE(Contributions::Read(whole, UINT32_MAX).ok());
}

}  // namespace
}  // namespace sl::kernel

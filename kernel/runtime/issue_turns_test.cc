// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue_turns.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

using Places = std::pmr::vector<uint32_t>;

TEST(IssueTurns, GivesEachQueueOneItemATurn) { EXPECT_EQ(ByTurns({0, 0, 0, 1, 1, 2}), (Places{0, 3, 5, 1, 4, 2})); }

TEST(IssueTurns, KeepsTheOrderOfOneQueue) {
  EXPECT_EQ(ByTurns({}), Places{});
  EXPECT_EQ(ByTurns({0, 0, 0}), (Places{0, 1, 2}));
  EXPECT_EQ(ByTurns({1, 0, 1, 0}), (Places{0, 1, 2, 3}));
}

}  // namespace
}  // namespace sl::kernel

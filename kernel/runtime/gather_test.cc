// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/gather.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

using Places = std::pmr::vector<uint32_t>;
using Ids = std::pmr::vector<uint64_t>;

TEST(Gather, IsForSeveralRanksOfSeveralCommunicators) {
  EXPECT_FALSE(IsGathered({}));
  EXPECT_FALSE(IsGathered({7, 8})) << "one rank of each";
  EXPECT_FALSE(IsGathered({7, 8, 9})) << "one rank of each";
  EXPECT_FALSE(IsGathered({7, 7, 7})) << "one communicator: its order is that of the calls";
  EXPECT_TRUE(IsGathered({7, 8, 7}));
}

TEST(Gather, BringsRanksOfACommunicatorTogether) { EXPECT_EQ(GatherMembers({9, 7, 9, 7, 8}), (Places{0, 2, 1, 3, 4})); }

// One thread has ranks 0 and 1 of communicators 7 and 8, and calls them in another order for each rank.
TEST(Gather, BringsTheSameCollectiveOfAllRanksTogether) {
  const Ids communicators = {7, 8, 8, 7};
  EXPECT_EQ(GatherCalls(communicators, {{0, true}, {1, true}, {2, true}, {3, true}}), (Places{0, 3, 1, 2}));
  EXPECT_EQ(GatherCalls(communicators, {{0, true}, {0, true}, {3, true}, {3, true}, {1, true}, {2, true}}),
            (Places{0, 2, 1, 3, 4, 5}));
}

TEST(Gather, PutsMessagesLastInTheirOrder) {
  const Ids communicators = {7, 8, 8, 7};
  EXPECT_EQ(GatherCalls(communicators, {{0, false}, {1, true}, {3, false}, {0, true}, {2, true}, {3, true}}),
            (Places{1, 4, 3, 5, 0, 2}));
}

}  // namespace
}  // namespace sl::kernel

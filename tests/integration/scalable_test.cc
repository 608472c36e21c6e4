// SPDX-License-Identifier: Apache-2.0
//
// ncclCommInitRankScalable with ids of several processes.
#include <gtest/gtest.h>

#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kMostIds = 3;

class Scalable : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ids, Scalable, testing::Range(1, kMostIds + 1));

TEST_P(Scalable, RanksMeetAndWork) {
  RunProcesses(7, [](Team& team) {
    std::vector<ncclUniqueId> ids = team.MakeIds(GetParam());
    ncclComm_t comm = nullptr;
    NCCL_OK(ncclCommInitRankScalable(&comm, team.size(), team.rank(), GetParam(), ids.data(), nullptr));
    const int mine = 1 << team.rank();
    int sum = 0;
    NCCL_OK(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(sum, (1 << team.size()) - 1);
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(ScalableMisuse, IsNamed) {
  RunProcesses(1, [](Team& team) {
    std::vector<ncclUniqueId> ids = team.MakeIds(1);
    ids.push_back(ids[0]);
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 2, ids.data(), nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("ids 0 and 1 are the same"));
    EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, ids.data(), nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("nId is 2, must be 1 to the number of ranks, 1"));
    EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 0, ids.data(), nullptr), ncclInvalidArgument);
  });
}

}  // namespace
}  // namespace sl::integration

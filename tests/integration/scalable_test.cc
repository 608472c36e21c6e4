// SPDX-License-Identifier: Apache-2.0
//
// ncclCommInitRankScalable with ids of several processes.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kMostIds = 3;
constexpr int kWords = sizeof(ncclUniqueId) / sizeof(uint64_t);

// The first `count` ranks make one each; all know all.
std::vector<ncclUniqueId> MakeIds(Team& team, int count) {
  std::vector<ncclUniqueId> ids(static_cast<size_t>(count));
  if (team.rank() < count) {
    ncclUniqueId mine;
    EXPECT_EQ(ncclGetUniqueId(&mine), ncclSuccess) << ncclGetLastError(nullptr);
    uint64_t words[kWords];
    std::memcpy(words, &mine, sizeof(mine));
    for (int i = 0; i < kWords; ++i) team.word(team.rank() * kWords + i) = words[i];
  }
  team.Barrier();
  for (int id = 0; id < count; ++id) {
    uint64_t words[kWords];
    for (int i = 0; i < kWords; ++i) words[i] = team.word(id * kWords + i);
    std::memcpy(&ids[static_cast<size_t>(id)], words, sizeof(words));
  }
  return ids;
}

class Scalable : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ids, Scalable, testing::Range(1, kMostIds + 1));

TEST_P(Scalable, RanksMeetAndWork) {
  RunProcesses(7, [](Team& team) {
    std::vector<ncclUniqueId> ids = MakeIds(team, GetParam());
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
    std::vector<ncclUniqueId> ids = MakeIds(team, 1);
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

// SPDX-License-Identifier: Apache-2.0
//
// ncclCommShrink between hosts: ranks go on without a host that is no longer wanted, or that vanished.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/team.h"
#include "tests/net/network.h"

namespace sl::net {
namespace {

using integration::Environment;
using integration::LastErrorHas;
using integration::RunProcesses;
using integration::Team;

constexpr int kHosts = 3;
constexpr int kRanks = 6;  // on the hosts in turn

class ShrinkBetweenHosts : public testing::Test {
 protected:
  void SetUp() override {
    network_ = std::make_unique<Network>(kHosts);
    if (!network_->missing().empty()) GTEST_SKIP() << network_->missing();
  }
  void Run(const integration::Body& body) {
    RunProcesses(kRanks, [&](Team& team) {
      network_->Enter(team.rank() % kHosts);
      body(team);
    });
  }

  std::unique_ptr<Network> network_;
};

ncclResult_t Sum(ncclComm_t comm, int number, std::vector<int>* sums) {
  const std::vector<int> mine(sums->size(), number);
  return ncclAllReduce(mine.data(), sums->data(), mine.size(), ncclInt32, ncclSum, comm, nullptr);
}

void ShrinkAndSum(Team& team, ncclComm_t parent, std::vector<int> excluded, int flags) {
  ncclComm_t child = nullptr;
  NCCL_OK(ncclCommShrink(parent, excluded.data(), static_cast<int>(excluded.size()), &child, nullptr, flags));
  int expected = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) expected += rank;
  }
  for (const size_t count : {size_t{1}, size_t{200'000}}) {
    std::vector<int> sums(count);
    NCCL_OK(Sum(child, team.rank(), &sums));
    EXPECT_EQ(sums, std::vector<int>(count, expected));
  }
  NCCL_OK(ncclCommFinalize(child));
  NCCL_OK(ncclCommDestroy(child));
}

TEST_F(ShrinkBetweenHosts, LeavesAHostOut) {
  const Environment patience("STARLING_COMM_SILENCE_MS", "10000");
  Run([](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    if (team.rank() % kHosts != 0) ShrinkAndSum(team, parent, {0, 3}, NCCL_SHRINK_DEFAULT);
    NCCL_OK(ncclCommFinalize(parent));
    NCCL_OK(ncclCommDestroy(parent));
  });
}

// The host of ranks 1 and 4 vanishes in mid-operation: nothing ends its connections.
TEST_F(ShrinkBetweenHosts, GoesOnWithoutAHostThatVanished) {
  const Environment silence("STARLING_COMM_SILENCE_MS", "1500");
  Run([this](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    std::vector<int> sums(100'000);
    NCCL_OK(Sum(parent, team.rank(), &sums));
    team.Barrier();
    if (team.rank() == 0) network_->SetCable(1, false);
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) result = Sum(parent, team.rank(), &sums);
    EXPECT_EQ(result, ncclRemoteError);
    if (team.rank() % kHosts != 1) {
      EXPECT_TRUE(LastErrorHas("rank 1 (") || LastErrorHas("rank 4 (")) << ncclGetLastError(nullptr);
      ShrinkAndSum(team, parent, {1, 4}, NCCL_SHRINK_ABORT);
    }
    NCCL_OK(ncclCommAbort(parent));
  });
}

}  // namespace
}  // namespace sl::net

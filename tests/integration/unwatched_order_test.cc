// SPDX-License-Identifier: Apache-2.0
//
// Communicators on a device whose launches nobody watches, over the fake CUDA driver: calls of ranks that come late, or
// in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

// Two communicators of two ranks, on one stream for each rank; rank 1 calls the second communicator first.
TEST_F(Unwatched, OneThreadCallsTheCommunicatorsOfItsRanksInAnyOrder) {
  const Environment several("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  RunProcesses(1, [](Team&) {
    const FakeGpu gpu;
    constexpr int kRanks = 2;
    const int devices[kRanks] = {0, 0};
    ncclComm_t comms[2][kRanks];
    for (auto& all : comms) NCCL_OK(ncclCommInitAll(all, kRanks, devices));
    const cudaStream_t streams[kRanks] = {gpu.MakeStream(), gpu.MakeStream()};
    int sent[2][kRanks] = {{10, 11}, {20, 21}};
    int received[2][kRanks] = {};
    int sums[2][kRanks] = {{1, 1}, {2, 2}};
    NCCL_OK(ncclGroupStart());
    for (const int rank : {0, 1}) {
      for (const int i : {rank, 1 - rank}) {
        const ncclComm_t comm = comms[i][rank];
        NCCL_OK(ncclAllReduce(&sums[i][rank], &sums[i][rank], 1, ncclInt32, ncclSum, comm, streams[rank]));
        NCCL_OK(ncclSend(&sent[i][rank], 1, ncclInt32, 1 - rank, comm, streams[rank]));
        NCCL_OK(ncclRecv(&received[i][rank], 1, ncclInt32, 1 - rank, comm, streams[rank]));
      }
    }
    NCCL_OK(ncclGroupEnd());
    ASSERT_TRUE(WaitUntil(30, [&] { return gpu.IsIdle(streams[0]) && gpu.IsIdle(streams[1]); })) << "a rank hangs";
    for (const int i : {0, 1}) {
      for (const int rank : {0, 1}) {
        EXPECT_EQ(sums[i][rank], 2 * (i + 1));
        EXPECT_EQ(received[i][rank], sent[i][1 - rank]);
        NCCL_OK(ncclCommDestroy(comms[i][rank]));
      }
    }
  });
}

// Rank 1's launch begins when rank 0, whose buffer it has been told of, has aborted and uses that for something else.
TEST_F(Unwatched, LateLaunchTouchesNoBufferOfARankThatHasAborted) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    constexpr size_t kCount = 2000;  // read from the peers' buffers
    std::vector<int> sums(kCount, 1);
    NCCL_OK(ncclAllReduce(sums.data(), sums.data(), kCount, ncclInt32, ncclSum, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(sums[0], -1) << "no memory of the fake driver's, so nobody reaches it";
    std::optional<FakeGpu::Gate> computing;
    if (team.rank() == 1) computing.emplace(gpu);
    NCCL_OK(ncclAllReduce(sums.data(), sums.data(), kCount, ncclInt32, ncclSum, comm, nullptr));
    if (team.rank() == 0) {
      EXPECT_FALSE(gpu.Synchronize(0.2)) << "it waits for nobody";  // by now it has told of its buffer
      NCCL_OK(ncclCommAbort(comm));
    }
    team.Barrier();
    if (team.rank() == 0) return team.Barrier();
    std::fill(sums.begin(), sums.end(), 5);
    computing->Open();
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(sums[0], 5) << "the late launch computed with what it was told";
    EXPECT_EQ(AsyncError(comm), ncclRemoteError);
    NCCL_OK(ncclCommAbort(comm));
    team.Barrier();
  });
}

}  // namespace
}  // namespace sl::integration

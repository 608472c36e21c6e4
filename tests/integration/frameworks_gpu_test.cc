// SPDX-License-Identifier: Apache-2.0
//
// The sequences of calls that frameworks make (see frameworks_test.cc), on GPUs of the fake CUDA driver: windows with
// put, signal and wait, a revocation on a time-out, sleep and wake between graphs.
#include <string>
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

class FrameworksOnGpu : public Unwatched {
 protected:
  const Environment release_{"STARLING_NCCL_VERSION", "23203"};

  static void ExpectSum(const FakeGpu& gpu, ncclComm_t comm, int ranks) {
    int value = 1;
    NCCL_OK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(value, ranks);
  }
};

// nccl2's windows: allocated by the library, registered once, put into in a ring with a signal, signalled back when
// the data was used, and used in collectives besides.
TEST_F(FrameworksOnGpu, Nccl2PutsSignalsAndWaitsInWindows) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const int next = (team.rank() + 1) % 3;
    const int last = (team.rank() + 2) % 3;
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 4096));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING));
    void* pointer = nullptr;
    NCCL_OK(ncclWinGetUserPtr(comm, window, &pointer));
    EXPECT_EQ(pointer, memory);
    int* const values = static_cast<int*>(memory);
    constexpr size_t kPlace = 16;  // of what comes, in ints
    for (int round = 0; round < 10; ++round) {
      values[0] = 100 * round + team.rank();
      ncclWaitSignalDesc_t data = {1, last, 0, 0};
      ncclWaitSignalDesc_t used = {1, next, 0, 0};
      NCCL_OK(ncclPutSignal(values, 1, ncclInt32, next, window, kPlace * sizeof(int), 0, 0, 0, comm, nullptr));
      NCCL_OK(ncclWaitSignal(1, &data, comm, nullptr));
      ASSERT_TRUE(gpu.Synchronize(30)) << round;
      EXPECT_EQ(values[kPlace], 100 * round + last);
      NCCL_OK(ncclSignal(last, 0, 0, 0, comm, nullptr));
      NCCL_OK(ncclWaitSignal(1, &used, comm, nullptr));
      ASSERT_TRUE(gpu.Synchronize(30)) << round;
    }
    ExpectSum(gpu, comm, 3);
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclCommDestroy(comm));
    NCCL_OK(ncclMemFree(memory));
  });
}

// A window that its program keeps from the collectives is put into as any.
TEST_F(FrameworksOnGpu, WindowsForPutsOnlyServePuts) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const int peer = 1 - team.rank();
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 4096));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_GIN_ONLY));
    int value = 40 + team.rank();
    ncclWaitSignalDesc_t wanted = {1, peer, 0, 0};
    NCCL_OK(ncclPutSignal(&value, 1, ncclInt32, peer, window, 0, 0, 0, 0, comm, nullptr));
    NCCL_OK(ncclWaitSignal(1, &wanted, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(*static_cast<int*>(memory), 40 + peer);
    team.Barrier();
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclCommDestroy(comm));
    NCCL_OK(ncclMemFree(memory));
  });
}

// torchft and nccl2: work that an absent rank holds up is found by its event, the communicator is revoked, and the
// survivor goes on alone while the other one is made anew.
TEST_F(FrameworksOnGpu, RevokesWorkOfAnAbsentRankAndReconfigures) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    ExpectSum(gpu, comm, 2);
    team.Barrier();
    if (team.rank() == 0) {
      int value = 1;
      NCCL_OK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
      EXPECT_FALSE(gpu.Synchronize(0.2));
      NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
      EXPECT_TRUE(gpu.Synchronize(30));
      int excluded = 1;
      ncclComm_t alone = nullptr;
      NCCL_OK(ncclCommShrink(comm, &excluded, 1, &alone, nullptr, NCCL_SHRINK_ABORT));
      ExpectSum(gpu, alone, 1);
      NCCL_OK(ncclCommDestroy(alone));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    const ncclComm_t again = team.MakeComm();
    ExpectSum(gpu, again, 2);
    NCCL_OK(ncclCommDestroy(again));
  });
}

// vLLM: graphs are dropped before sleep, as its memory pool is, and captured anew after waking.
TEST_F(FrameworksOnGpu, VllmSleepsBetweenItsGraphs) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    for (int round = 0; round < 2; ++round) {
      gpu.BeginCapture();
      NCCL_OK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr));
      void* graph = gpu.EndCapture();
      value = 1;
      team.Barrier();
      gpu.Launch(graph);
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(value, 2);
      EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage) << "the graph uses the memory";
      EXPECT_TRUE(LastErrorHas("graph"));
      team.Barrier();
      gpu.DestroyGraph(graph);
      EXPECT_TRUE(WaitUntil(10, [&] { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM) == ncclSuccess; }));
      uint64_t suspended = 0;
      NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
      EXPECT_EQ(suspended, 1u);
      NCCL_OK(ncclCommResume(comm));
      ExpectSum(gpu, comm, 2);
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

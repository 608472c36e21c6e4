// SPDX-License-Identifier: Apache-2.0
//
// Puts, signals and waits for them, over the fake CUDA driver.
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

using Signals = Unwatched;

// One rank's part: memory of its fake GPU and a window on it.
struct Windowed {
  Windowed(const FakeGpu& gpu, const Team& team, ncclComm_t comm) : size(team.size()) {
    memory = gpu.Reserve(1);
    gpu.Map(memory, cu::kHandlePosixFd);
    EXPECT_EQ(ncclCommWindowRegister(comm, values(), FakeGpu::kPiece, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess)
        << ncclGetLastError(nullptr);
  }
  int* values() const { return reinterpret_cast<int*>(memory); }
  int size;
  cu::Address memory = 0;
  ncclWindow_t window = nullptr;
};

// Everybody puts a value into everybody's window, the own one included, and waits for all.
ncclResult_t PutToAll(const Windowed& mine, ncclComm_t comm, int rank, const int* value) {
  std::vector<ncclWaitSignalDesc_t> wanted;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int peer = 0; peer < mine.size; ++peer) {
    const size_t offset = static_cast<size_t>(rank) * sizeof(int);
    EXPECT_EQ(ncclPutSignal(value, 1, ncclInt32, peer, mine.window, offset, 0, 0, 0, comm, nullptr), ncclSuccess)
        << ncclGetLastError(nullptr);
    wanted.push_back({1, peer, 0, 0});
  }
  EXPECT_EQ(ncclWaitSignal(mine.size, wanted.data(), comm, nullptr), ncclSuccess);
  return ncclGroupEnd();
}

TEST_F(Signals, PutsArriveBeforeTheirSignals) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const Windowed mine(gpu, team, comm);
    for (int round = 0; round < 20; ++round) {
      const int value = 100 * round + team.rank();
      NCCL_OK(PutToAll(mine, comm, team.rank(), &value));
      ASSERT_TRUE(gpu.Synchronize(10)) << round;
      for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(mine.values()[peer], 100 * round + peer);
      team.Barrier();
    }
    NCCL_OK(ncclCommWindowDeregister(comm, mine.window));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Each is taken once, however they come.
TEST_F(Signals, SignalsAreCounted) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const int peer = 1 - team.rank();
    for (int i = 0; i < 3; ++i) NCCL_OK(ncclSignal(peer, 0, 0, 0, comm, nullptr));
    ncclWaitSignalDesc_t two = {2, peer, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &two, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(10));
    team.Barrier();
    NCCL_OK(ncclWaitSignal(1, &two, comm, nullptr));
    EXPECT_FALSE(gpu.Synchronize(0.05)) << "one is left, and not two";
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    EXPECT_TRUE(gpu.Synchronize(1)) << "an abort ends it";
  });
}

TEST_F(Signals, PutsOutOfReachAreRefusedInWords) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int values[16] = {};
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, values, sizeof(values), &window, 0));  // not of a GPU
    EXPECT_EQ(ncclPutSignal(values, 4, ncclInt32, 1 - team.rank(), window, 0, 0, 0, 0, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("is out of reach"));
    EXPECT_TRUE(LastErrorHas("send and receive in a group"));
    EXPECT_EQ(ncclPutSignal(values, 4, ncclInt32, 1 - team.rank(), window, 56, 0, 0, 0, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("16 bytes at offset 56 reach out of a window of 64"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// The sequences of calls that frameworks make, on host memory, as a program of NCCL 2.32.3 sees them: PyTorch's backend
// nccl2 and torchcomms (communicators that do not block, revoke on a time-out, reconfigure), torchft (a communicator
// for each quorum, aborted by a watchdog), vLLM (groups, sleep and wake).
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr size_t kCount = 4096;
constexpr double kPatience = 20;  // of a backend's polling; far more than anything takes

class Frameworks : public testing::Test {
 protected:
  const Environment release_{"STARLING_NCCL_VERSION", "2.32.3"};

  // As a backend waits for a communicator that does not block.
  static ncclResult_t Poll(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    WaitUntil(kPatience, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress; });
    return state;
  }
  // A rank of a new communicator with every field of 2.32's config that a backend sets.
  static ncclComm_t Join(const ncclUniqueId& id, int ranks, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = "default_pg";
    config.splitShare = 0;
    config.nvlsHostMode = ncclNvlsHostModeEnable;
    ncclComm_t comm = nullptr;
    const ncclResult_t begun = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
    EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress) << ncclGetLastError(nullptr);
    EXPECT_EQ(Poll(comm), ncclSuccess) << ncclGetLastError(comm);
    return comm;
  }
  static void ExpectSum(ncclComm_t comm, int ranks, cudaStream_t stream = nullptr) {
    std::vector<int> values(kCount, 1);
    ncclResult_t issued = ncclAllReduce(values.data(), values.data(), kCount, ncclInt32, ncclSum, comm, stream);
    if (issued == ncclInProgress) issued = Poll(comm);
    EXPECT_EQ(issued, ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(values.front(), ranks);
    EXPECT_EQ(values.back(), ranks);
  }
};

TEST_F(Frameworks, ProgramsAreToldTheReleaseTheyAskFor) {
  RunProcesses(1, [](Team&) {
    int version = 0;
    NCCL_OK(ncclGetVersion(&version));
    EXPECT_EQ(version, 23203);
    EXPECT_STRNE(ncclGetErrorString(ncclTimeout), ncclGetErrorString(ncclNumResults));
  });
}

// nccl2: the watchdog finds work of an absent rank too old, revokes, and the survivors go on in a smaller communicator;
// then they take a new rank in.
TEST_F(Frameworks, Nccl2RevokesOnATimeOutAndReconfigures) {
  RunProcesses(4, [](Team& team) {
    enum { kRevoked, kShrunk };
    const ncclUniqueId first = team.MakeId();
    ncclComm_t comm = nullptr;
    if (team.rank() < 3) {
      comm = Join(first, 3, team.rank());
      ExpectSum(comm, 3);
    }
    team.Barrier();
    ncclComm_t child = nullptr;
    if (team.rank() < 2) {
      HostStream stream;
      std::vector<int> values(kCount, 1);
      const ncclResult_t issued =
          ncclAllReduce(values.data(), values.data(), kCount, ncclInt32, ncclSum, comm, stream.get());
      EXPECT_TRUE(issued == ncclSuccess || issued == ncclInProgress);
      EXPECT_FALSE(stream.Synchronize(0.2)) << "rank 2 does not call: the backend's time is over";
      const ncclResult_t revoked = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
      EXPECT_TRUE(revoked == ncclSuccess || revoked == ncclInProgress) << ncclGetLastError(comm);
      EXPECT_EQ(Poll(comm), ncclSuccess) << ncclGetLastError(comm);
      EXPECT_TRUE(stream.Synchronize()) << "what it waited for was ended";
      EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
      ++team.word(kRevoked);
      EXPECT_TRUE(WaitUntil(kPatience, [&] { return team.word(kRevoked) == 2; }));
      int excluded = 2;
      const ncclResult_t shrunk = ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT);
      EXPECT_TRUE(shrunk == ncclSuccess || shrunk == ncclInProgress) << ncclGetLastError(comm);
      EXPECT_EQ(Poll(child), ncclSuccess) << ncclGetLastError(child);
      ExpectSum(child, 2);
      NCCL_OK(ncclCommAbort(comm));
    }
    team.Barrier();
    if (team.rank() == 2) {
      NCCL_OK(ncclCommAbort(comm));  // late, and on its own
    }
    // Reconfigured: an id from the store, the survivors and a rank that was not there before.
    const ncclUniqueId second = team.MakeId();
    if (team.rank() != 2) {
      const ncclComm_t whole = Join(second, 3, team.rank() == 3 ? 2 : team.rank());
      ExpectSum(whole, 3);
      const ncclResult_t finalized = ncclCommFinalize(whole);
      EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
      EXPECT_EQ(Poll(whole), ncclSuccess);
      NCCL_OK(ncclCommDestroy(whole));
    }
    if (child != nullptr) {
      NCCL_OK(ncclCommDestroy(child));
    }
  });
}

// The same without an id: the survivors' communicator grows.
TEST_F(Frameworks, Nccl2GrowsByARankThatComesBack) {
  RunProcesses(3, [](Team& team) {
    const ncclUniqueId first = team.MakeId();
    const ncclComm_t comm = team.rank() < 2 ? Join(first, 2, team.rank()) : nullptr;
    ncclUniqueId id = team.MakeId();
    ncclComm_t grown = nullptr;
    if (team.rank() < 2) {
      const ncclResult_t begun = ncclCommGrow(comm, 3, team.rank() == 0 ? &id : nullptr, -1, &grown, nullptr);
      EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress) << ncclGetLastError(comm);
    } else {
      const ncclResult_t begun = ncclCommGrow(nullptr, 3, &id, 2, &grown, nullptr);
      EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress) << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(Poll(grown), ncclSuccess) << ncclGetLastError(grown);
    ExpectSum(grown, 3);
    NCCL_OK(ncclCommDestroy(grown));
    if (comm != nullptr) {
      NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

// torchft: each quorum has its own communicator; a watchdog's thread aborts the one whose call waits for a rank that
// has left.
TEST_F(Frameworks, TorchftMakesACommunicatorForEachQuorumAndAbortsTheLastOne) {
  RunProcesses(3, [](Team& team) {
    for (int quorum = 0; quorum < 3; ++quorum) {
      const int left = quorum;  // this rank is not there for the second half of the quorum
      const ncclUniqueId id = team.MakeId();
      const ncclComm_t comm = Join(id, 3, team.rank());
      ExpectSum(comm, 3);
      std::atomic<bool> has_ended{false};
      std::thread step([&] {
        int value = 1;
        if (team.rank() != left) {
          EXPECT_NE(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
        }
        has_ended = true;
      });
      if (team.rank() != left) {
        EXPECT_FALSE(WaitUntil(0.2, [&] { return has_ended.load(); }));
      }
      team.Barrier();
      NCCL_OK(ncclCommAbort(comm));
      step.join();
      team.Barrier();
    }
  });
}

// vLLM: pynccl's calls, and sleep and wake of the same communicator.
TEST_F(Frameworks, VllmGroupsSleepsAndWakes) {
  RunProcesses(2, [](Team& team) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = team.MakeId();
    NCCL_OK(ncclCommInitRank(&comm, 2, id, team.rank()));
    const int peer = 1 - team.rank();
    for (int round = 0; round < 3; ++round) {
      ExpectSum(comm, 2);
      int sent = 10 * round + team.rank();
      int received = -1;
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(&sent, 1, ncclInt32, peer, comm, nullptr));
      NCCL_OK(ncclRecv(&received, 1, ncclInt32, peer, comm, nullptr));
      NCCL_OK(ncclGroupEnd());
      EXPECT_EQ(received, 10 * round + peer);
      uint64_t suspended = 7;
      NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
      NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
      EXPECT_EQ(suspended, 1u);
      EXPECT_EQ(ncclAllReduce(&sent, &sent, 1, ncclInt32, ncclSum, comm, nullptr), ncclInvalidUsage);
      NCCL_OK(ncclCommResume(comm));
      NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &suspended));
      EXPECT_EQ(suspended, 0u);
    }
    ExpectSum(comm, 2);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// What none of them may rely on between hosts, and is refused with what to do instead.
TEST_F(Frameworks, PutsOnHostMemoryAreRefusedWithTheAlternative) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, kCount));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, kCount, &window, NCCL_WIN_COLL_SYMMETRIC));
    int value = 1;
    EXPECT_EQ(ncclPutSignal(&value, 1, ncclInt32, 1 - team.rank(), window, 0, 0, 0, 0, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("send"));
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclMemFree(memory));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

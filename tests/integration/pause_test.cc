// SPDX-License-Identifier: Apache-2.0
//
// Communicators that stop working, for good (revoke) or for a while (suspend, resume), and those that grow.
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// Every rank gives its number; returns those of all.
std::vector<int> Gather(ncclComm_t comm, size_t size) {
  int rank = -1;
  std::vector<int> all(size, -1);
  EXPECT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess);
  EXPECT_EQ(ncclAllGather(&rank, all.data(), 1, ncclInt32, comm, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  return all;
}

std::vector<int> Numbers(size_t size) {
  std::vector<int> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

uint64_t Stat(ncclComm_t comm, ncclCommMemStat_t stat) {
  uint64_t value = UINT64_MAX;
  EXPECT_EQ(ncclCommMemStats(comm, stat, &value), ncclSuccess) << ncclGetLastError(nullptr);
  return value;
}

ncclResult_t AsyncError(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

// Rank 1 never calls what the others wait for.
TEST(Revoke, EndsWhatWaitsAndLeavesTheRestOfUse) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    HostStream stream;
    std::vector<float> a(1 << 16, 1), b(1 << 16);
    if (team.rank() != 1) {
      NCCL_OK(ncclAllReduce(a.data(), b.data(), a.size(), ncclFloat32, ncclSum, comm, stream.get()));
    }
    NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    EXPECT_TRUE(stream.Synchronize(5)) << "the operation was ended";
    EXPECT_EQ(AsyncError(comm), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(ncclAllReduce(a.data(), b.data(), 1, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("the communicator was revoked; no operation may follow"));
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclInvalidArgument);
    team.Barrier();
    ncclComm_t half = nullptr;
    NCCL_OK(ncclCommSplit(comm, team.rank() % 2, 0, &half, nullptr));
    EXPECT_EQ(Gather(half, team.rank() == 1 ? 1 : 2), Numbers(team.rank() == 1 ? 1 : 2));
    NCCL_OK(ncclCommDestroy(half));
    if (team.rank() != 1) {
      int excluded = 1;
      ncclComm_t others = nullptr;
      NCCL_OK(ncclCommShrink(comm, &excluded, 1, &others, nullptr, NCCL_SHRINK_DEFAULT));
      EXPECT_EQ(Gather(others, 2), Numbers(2));
      NCCL_OK(ncclCommDestroy(others));
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// What each rank has told the others of its failure ends no wait of a call that a revoked communicator still serves.
TEST(Revoke, LeavesTheRestOfUseToRanksThatHaveFailed) {
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "20000");
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const size_t count = team.rank() == 0 ? 1 : 2;
    std::vector<float> a(3, 1), b(3);
    EXPECT_NE(ncclAllReduce(a.data(), b.data(), count, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    team.Barrier();
    NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    ncclComm_t all = nullptr;
    NCCL_OK(ncclCommSplit(comm, 0, team.rank(), &all, nullptr));
    EXPECT_EQ(Gather(all, 3), Numbers(3));
    NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    NCCL_OK(ncclCommDestroy(all));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Revoke, IsLocal) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    }
    team.Barrier();
    EXPECT_EQ(AsyncError(comm), ncclSuccess) << "rank 1 has not revoked anything";
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

// A blocking operation on one thread, the revocation on another.
TEST(Revoke, OfANonBlockingCommunicatorEndsABlockedThread) {
  RunProcesses(2, [](Team& team) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = team.MakeId();
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, team.rank(), &config), ncclInProgress);
    ASSERT_TRUE(WaitUntil(20, [&] { return AsyncError(comm) == ncclSuccess; }));
    std::thread waiting([&] {
      float value = 1;
      if (team.rank() == 0) {
        EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidUsage);
      }
    });
    const ncclResult_t revoked = ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
    EXPECT_TRUE(revoked == ncclSuccess || revoked == ncclInProgress);
    ASSERT_TRUE(WaitUntil(20, [&] { return AsyncError(comm) == ncclSuccess; }));
    waiting.join();
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST(Suspend, GivesMemoryBackUntilResume) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (int round = 0; round < 2; ++round) {
      std::vector<float> values(200'000, 1);
      NCCL_OK(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_EQ(values.back(), 3);
      const uint64_t total = Stat(comm, ncclStatGpuMemTotal);
      const uint64_t releasable = Stat(comm, ncclStatGpuMemSuspend);
      EXPECT_GT(releasable, 0u);
      team.Barrier();
      NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
      EXPECT_EQ(Stat(comm, ncclStatGpuMemSuspended), 1u);
      EXPECT_EQ(Stat(comm, ncclStatGpuMemSuspend), releasable);
      EXPECT_EQ(Stat(comm, ncclStatGpuMemTotal), total);
      EXPECT_EQ(ncclAllReduce(values.data(), values.data(), 1, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidUsage);
      EXPECT_TRUE(LastErrorHas("the communicator is suspended; resume it on all ranks first"));
      EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
      EXPECT_EQ(AsyncError(comm), ncclSuccess);
      NCCL_OK(ncclCommResume(comm));
      EXPECT_EQ(ncclCommResume(comm), ncclInvalidUsage);
      EXPECT_EQ(Stat(comm, ncclStatGpuMemSuspended), 0u);
    }
    EXPECT_EQ(Gather(comm, 3), Numbers(3));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// It cannot be resumed any more, and need not be.
TEST(Suspend, OfACommunicatorThatLosesARankCanBeShrunk) {
  RunProcesses(3,
               [](Team& team) {
                 const ncclComm_t comm = team.MakeComm();
                 NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
                 team.Barrier();
                 if (team.rank() == 1) raise(SIGKILL);
                 EXPECT_TRUE(WaitUntil(20, [&] { return AsyncError(comm) != ncclSuccess; }));
                 EXPECT_EQ(ncclCommResume(comm), ncclRemoteError);
                 int excluded = 1;
                 ncclComm_t others = nullptr;
                 EXPECT_EQ(ncclCommShrink(comm, &excluded, 1, &others, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidUsage);
                 EXPECT_TRUE(LastErrorHas("resume it first, or shrink it with the abort flag"));
                 NCCL_OK(ncclCommShrink(comm, &excluded, 1, &others, nullptr, NCCL_SHRINK_ABORT));
                 EXPECT_EQ(Gather(others, 2), Numbers(2));
                 NCCL_OK(ncclCommDestroy(others));
                 NCCL_OK(ncclCommAbort(comm));
               },
               {.may_die = 1u << 1});
}

TEST(Suspend, WorksForRanksOfOneThreadInAGroupAndBeforeDestroy) {
  RunProcesses(1, [](Team&) {
    std::vector<ncclComm_t> comms(3);
    NCCL_OK(ncclCommInitAll(comms.data(), 3, nullptr));
    const auto all = [&](ncclResult_t (*call)(ncclComm_t)) {
      NCCL_OK(ncclGroupStart());
      for (const ncclComm_t comm : comms) NCCL_OK(call(comm));
      NCCL_OK(ncclGroupEnd());
    };
    const auto suspend = [](ncclComm_t comm) { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); };
    all(suspend);
    all(ncclCommResume);
    std::vector<int> sums(3, 1);
    NCCL_OK(ncclGroupStart());
    for (size_t i = 0; i < 3; ++i) {
      NCCL_OK(ncclAllReduce(&sums[i], &sums[i], 1, ncclInt32, ncclSum, comms[i], nullptr));
    }
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(sums, std::vector<int>(3, 3));
    all(suspend);
    for (const ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
  });
}

// Ranks 0 to 2 have a communicator, which the others join.
TEST(Grow, TakesNewRanksInAndLeavesTheParent) {
  RunProcesses(5, [](Team& team) {
    const std::vector<ncclUniqueId> ids = team.MakeIds(2);  // by ranks 0 and 1
    ncclComm_t parent = nullptr;
    if (team.rank() < 3) {
      NCCL_OK(ncclCommInitRank(&parent, 3, ids[0], team.rank()));
    }
    const bool knows = team.rank() == 1 || parent == nullptr;
    ncclComm_t grown = nullptr;
    NCCL_OK(ncclCommGrow(parent, 5, knows ? &ids[1] : nullptr, parent != nullptr ? -1 : team.rank(), &grown, nullptr));
    EXPECT_EQ(Gather(grown, 5), Numbers(5));
    if (parent != nullptr) {
      EXPECT_EQ(Gather(parent, 3), Numbers(3));
      NCCL_OK(ncclCommDestroy(parent));
    }
    EXPECT_EQ(Gather(grown, 5), Numbers(5));
    NCCL_OK(ncclCommDestroy(grown));
  });
}

TEST(Grow, SaysWhatRanksDisagreeAbout) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ncclComm_t grown = nullptr;
    EXPECT_EQ(ncclCommGrow(comm, 3, nullptr, -1, &grown, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("one has to"));
    EXPECT_EQ(grown, nullptr);
    EXPECT_EQ(ncclCommGrow(comm, 3 + team.rank(), nullptr, -1, &grown, nullptr), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("grows to"));
    const std::vector<ncclUniqueId> ids = team.MakeIds(2);
    EXPECT_EQ(ncclCommGrow(comm, 3, &ids[static_cast<size_t>(team.rank())], -1, &grown, nullptr), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("grows by another unique id"));
    EXPECT_EQ(Gather(comm, 2), Numbers(2)) << "the communicator is as it was";
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

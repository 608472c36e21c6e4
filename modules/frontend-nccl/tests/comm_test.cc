// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/comm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "modules/frontend-nccl/tests/fixture.h"
#include "modules/frontend-nccl/variables.h"

namespace sl::frontend_nccl {
namespace {

class Comm : public Fixture {
 protected:
  static ncclUniqueId Id() {
    ncclUniqueId id{};
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    return id;
  }
  static ncclConfig_t NonBlocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }
};

TEST_F(Comm, KnowsItsPlace) {
  const std::vector<ncclComm_t> comms = MakeComms(3);
  int value = -1;
  EXPECT_EQ(ncclCommCount(comms[2], &value), ncclSuccess);
  EXPECT_EQ(value, 3);
  EXPECT_EQ(ncclCommUserRank(comms[2], &value), ncclSuccess);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(ncclCommCuDevice(comms[2], &value), ncclSuccess);
  EXPECT_EQ(ncclCommCount(comms[2], nullptr), ncclInvalidArgument);
  uint64_t bytes = 0;
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, &bytes), ncclSuccess);
  EXPECT_EQ(bytes, 1200u);
  DestroyComms(comms);
}

TEST_F(Comm, InitRefusesBadArgumentsByName) {
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = Id();
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument nranks is 0")) << Text();
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument rank is 2, must be 0 to 1")) << Text();
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
  ncclUniqueId ids[2] = {id, id};
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 0, ids, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 1, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGetUniqueId(nullptr), ncclInvalidArgument);
  EXPECT_EQ(Fake().Count("comm_create"), 0);
}

TEST_F(Comm, InitAllRefusesBadDevices) {
  ncclComm_t comms[2];
  const int twice[2] = {1, 1};
  const int negative[2] = {0, -1};
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_EQ(ncclCommInitAll(comms, 2, negative), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(nullptr, 2, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitAll(comms, -1, nullptr), ncclInvalidArgument);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  ForgetVariables();
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclSuccess) << Text();
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  ForgetVariables();
  DestroyComms({comms[0], comms[1]});
}

TEST_F(Comm, HandleIsNullAfterARefusedCall) {
  const ncclComm_t comm = MakeComm();
  const ncclUniqueId id = Id();
  const auto old = reinterpret_cast<ncclComm_t>(0x10);
  ncclComm_t made = old;
  const auto is_refused = [&made, old](ncclResult_t result) {
    const bool is_null = made == nullptr;
    made = old;
    return result == ncclInvalidArgument && is_null;
  };
  int excluded = 0;
  ncclConfig_t bad = NCCL_CONFIG_INITIALIZER;
  bad.blocking = 7;
  EXPECT_TRUE(is_refused(ncclCommInitRank(&made, 0, id, 0)));
  EXPECT_TRUE(is_refused(ncclCommInitRankConfig(&made, 1, id, 0, &bad)));
  EXPECT_TRUE(is_refused(ncclCommSplit(comm, -2, 0, &made, nullptr)));
  EXPECT_TRUE(is_refused(ncclCommSplit(nullptr, 0, 0, &made, nullptr)));
  EXPECT_TRUE(is_refused(ncclCommShrink(comm, &excluded, 1, &made, nullptr, NCCL_SHRINK_DEFAULT)));
  EXPECT_TRUE(is_refused(ncclCommGrow(comm, 1, &id, -1, &made, nullptr)));
  const int negative = -1;
  EXPECT_TRUE(is_refused(ncclCommInitAll(&made, 1, &negative)));
  DestroyComms({comm});
}

TEST_F(Comm, HandleIsNullAfterAFailedInit) {
  Fake().create_status = SL_ERR_SYSTEM;
  auto comm = reinterpret_cast<ncclComm_t>(0x10);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, Id(), 0), ncclSystemError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_TRUE(TextHas("ncclCommInitRank: the fake said so")) << Text();
}

TEST_F(Comm, HandleIsNullAfterRanksStayedAway) {
  Fake().wait_status = SL_ERR_TIMEOUT;
  Fake().state_status = SL_ERR_TIMEOUT;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, Id(), 0), ncclRemoteError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(Fake().Count("comm_abort"), 1);
}

TEST_F(Comm, NonBlockingInitReturnsAtOnceAndIsPolled) {
  ncclConfig_t config = NonBlocking();
  const ncclUniqueId id = Id();
  ncclComm_t comms[2];
  EXPECT_EQ(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config), ncclInProgress);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  int count = 0;
  EXPECT_EQ(ncclCommCount(comms[0], &count), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("still connecting")) << Text();
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(ncclCommCount(comms[0], &count), ncclSuccess);
  EXPECT_EQ(ncclCommCount(comms[1], &count), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_wait"), 0);
  EXPECT_EQ(ncclCommFinalize(comms[0]), ncclInProgress);
  EXPECT_EQ(ncclCommFinalize(comms[1]), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  DestroyComms({comms[0], comms[1]});
}

TEST_F(Comm, ReportsWhatBefellIt) {
  const ncclComm_t comm = MakeComm();
  Fake().state_status = SL_ERR_PEER_LOST;
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_TRUE(TextHas("the fake is ill")) << Text();
  EXPECT_EQ(ncclCommGetAsyncError(comm, nullptr), ncclInvalidArgument);
  std::string elsewhere;
  std::thread([&] { elsewhere = ncclGetLastError(comm); }).join();
  EXPECT_NE(elsewhere.find("the fake is ill"), std::string::npos);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("comm_finalize"), 0);
}

// Who is inside a call keeps the communicator's parts: an abort ends what the call waits for, and frees them after it.
TEST_F(Comm, AbortCancelsAndThenAwaitsWhoIsInside) {
  const ncclComm_t comm = MakeComm();
  std::atomic<bool> is_inside{false};
  Fake().in_comm_state = [&is_inside] {
    is_inside.store(true);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (Fake().Count("comm_cancel") == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(Fake().Count("comm_abort"), 0);
  };
  std::thread watchdog([comm] {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  });
  while (!is_inside.load()) std::this_thread::yield();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << Text();
  watchdog.join();
  EXPECT_EQ(Fake().Count("comm_cancel"), 1);
  EXPECT_EQ(Fake().Count("comm_abort"), 1);
}

// A group may wait for other communicators, too. The kernel keeps the memory of what such a call is inside.
TEST_F(Comm, AbortDoesNotAwaitForEverWhoDoesNotLeave) {
  const ncclComm_t comm = MakeComm();
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_leave{false};
  Fake().in_comm_state = [&] {
    is_inside.store(true);
    while (!may_leave.load()) std::this_thread::yield();
    Fake().state_status = SL_ERR_ABORTED;
  };
  std::thread stuck([comm] {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  });
  while (!is_inside.load()) std::this_thread::yield();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("comm_abort"), 1);
  may_leave.store(true);
  stuck.join();
}

TEST_F(Comm, DestroyAwaitsWhoIsInsideAndCancelsNothing) {
  const ncclComm_t comm = MakeComm();
  const auto self = std::this_thread::get_id();
  std::atomic<bool> is_inside{false};
  std::atomic<bool> may_leave{false};
  Fake().in_comm_state = [&, self] {
    if (std::this_thread::get_id() == self) return may_leave.store(true);  // the destroy has begun
    is_inside.store(true);
    while (!may_leave.load()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // an end that did not wait would show meanwhile
    EXPECT_EQ(Fake().Count("comm_destroy"), 0);
  };
  std::thread watchdog([comm] {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  });
  while (!is_inside.load()) std::this_thread::yield();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << Text();
  watchdog.join();
  EXPECT_EQ(Fake().Count("comm_cancel"), 0);
  EXPECT_EQ(Fake().Count("comm_destroy"), 1);
}

TEST_F(Comm, IsRefusedAfterItsEnd) {
  const ncclComm_t destroyed = MakeComm();
  EXPECT_EQ(ncclCommDestroy(destroyed), ncclSuccess);
  const ncclComm_t aborted = MakeComm();
  EXPECT_EQ(ncclCommAbort(aborted), ncclSuccess);
  int count = 0;
  for (const ncclComm_t comm : {destroyed, aborted}) {
    EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
    EXPECT_TRUE(TextHas("destroyed or aborted")) << Text();
    EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
  }
}

// Or the log of a watchdog that was not told would hold nothing else.
TEST_F(Comm, IsRefusedInTheLogOnceAfterItsEnd) {
  const ncclComm_t comm = MakeComm();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  Fake().logs.clear();
  ncclResult_t state = ncclSuccess;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclInvalidArgument);
    EXPECT_TRUE(TextHas("ncclCommGetAsyncError: communicator")) << Text();
    EXPECT_TRUE(TextHas("was destroyed or aborted")) << Text();
  }
  EXPECT_EQ(Fake().logs.size(), 1u);
}

TEST_F(Comm, NullAndForeignPointersAreJudged) {
  int count = 0;
  EXPECT_EQ(ncclCommCount(nullptr, &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(nullptr), ncclSuccess);
  for (const uintptr_t address : {uintptr_t{1}, uintptr_t{64}, UINTPTR_MAX, reinterpret_cast<uintptr_t>(&count),
                                  reinterpret_cast<uintptr_t>(g_comms) + 8}) {
    EXPECT_EQ(ncclCommCount(reinterpret_cast<ncclComm_t>(address), &count), ncclInvalidArgument);
    EXPECT_TRUE(TextHas("is no communicator of this library")) << Text();
  }
}

TEST_F(Comm, FinalizedTakesNothingButDestroy) {
  const ncclComm_t comm = MakeComm();
  EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << Text();
  EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidArgument);
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("was finalized")) << Text();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_finalize"), 1);
}

// One thread that destroys its ranks in turn must not wait in the first for the second.
TEST_F(Comm, RanksOfOneThreadAreDestroyedInTurn) {
  const std::vector<ncclComm_t> comms = MakeComms(3);
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_destroy"), 0);
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comms[2]), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("comm_destroy"), 3);
  EXPECT_TRUE(Fake().live.empty());
}

TEST_F(Comm, AbortTakesTheRanksThatWaitedForIt) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  EXPECT_EQ(ncclCommDestroy(comms[0]), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comms[1]), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_abort"), 2);
  EXPECT_TRUE(Fake().live.empty());
}

TEST_F(Comm, RanksOfSeveralThreadsAreDestroyedOnceEach) {
  for (int round = 0; round < 50; ++round) {
    const std::vector<ncclComm_t> comms = MakeComms(4);
    std::vector<std::thread> threads;
    for (ncclComm_t comm : comms) {
      threads.emplace_back([comm] { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << Text(); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(Fake().live.empty());
  }
}

TEST_F(Comm, ThousandsComeAndGoInAFewSlots) {
  const ncclComm_t first = MakeComm();
  DestroyComms({first});
  uintptr_t highest = 0;
  for (int i = 0; i < 3000; ++i) {
    const ncclComm_t comm = MakeComm();
    if (i < 1000) {
      EXPECT_NE(comm, first) << "a handle must rest before it is used again";
    }
    highest = std::max(highest, reinterpret_cast<uintptr_t>(comm));
    DestroyComms({comm});
  }
  EXPECT_LE(highest - reinterpret_cast<uintptr_t>(g_comms), (2 * kQuarantine + 1000) * sizeof(ncclComm));
}

TEST_F(Comm, SplitsWithinAGroup) {
  const std::vector<ncclComm_t> parents = MakeComms(2);
  ncclComm_t children[2] = {nullptr, nullptr};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "half";
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclCommSplit(parents[static_cast<size_t>(rank)], 5, rank, &children[rank], &config), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(children[1], &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  DestroyComms({children[0], children[1], parents[0], parents[1]});
}

TEST_F(Comm, HandsTheKernelTheSmsThatAreAskedFor) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 2;
  config.maxCTAs = 6;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  ncclComm_t parent = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&parent, 1, id, 0, &config), ncclSuccess) << Text();
  const auto expect = [](uint32_t least, uint32_t most, bool saves) {
    const FakeComm& made = *Fake().live.back();
    EXPECT_EQ(made.processors_min, least);
    EXPECT_EQ(made.processors_max, most);
    EXPECT_EQ(made.processor_weight != 0, saves);
  };
  expect(2, 6, true);
  ncclComm_t child = nullptr;
  ASSERT_EQ(ncclCommSplit(parent, 0, 0, &child, nullptr), ncclSuccess) << Text();
  expect(2, 6, true);
  ncclComm_t other = nullptr;
  config = NCCL_CONFIG_INITIALIZER;
  ASSERT_EQ(ncclCommSplit(parent, 1, 0, &other, &config), ncclSuccess) << Text();
  expect(0, 0, false);
  DestroyComms({other, child, parent});
}

TEST_F(Comm, HandsTheKernelTheWishForNoSms) {
  for (const int policy : {NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_ZERO, NCCL_CTA_POLICY_EFFICIENCY,
                           NCCL_CTA_POLICY_ZERO | NCCL_CTA_POLICY_EFFICIENCY}) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = policy;
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess) << Text();
    EXPECT_EQ(Fake().live.back()->processor_free != 0, (policy & NCCL_CTA_POLICY_ZERO) != 0) << policy;
    DestroyComms({comm});
  }
}

TEST_F(Comm, SplitWithoutColorGivesNull) {
  const ncclComm_t parent = MakeComm();
  ncclComm_t child = parent;
  EXPECT_EQ(ncclCommSplit(parent, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr), ncclSuccess) << Text();
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(Fake().Count("comm_split -1"), 1);
  EXPECT_EQ(ncclCommSplit(parent, -2, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(parent, 0, 0, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(nullptr, 0, 0, &child, nullptr), ncclInvalidArgument);
  DestroyComms({parent});
}

// Two ranks of three, on one thread.
TEST_F(Comm, ShrinkInAGroupStartsAllBeforeItWaits) {
  ncclComm_t parents[3];
  ASSERT_EQ(ncclCommInitAll(parents, 3, nullptr), ncclSuccess) << Text();
  Fake().calls.clear();
  int excluded = 1;
  ncclComm_t children[2];
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommShrink(parents[0], &excluded, 1, &children[0], nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
  EXPECT_EQ(ncclCommShrink(parents[2], &excluded, 1, &children[1], nullptr, NCCL_SHRINK_ABORT), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("comm_shrink -1 flags 0"), 1);
  EXPECT_EQ(Fake().Count("comm_shrink -1 flags 1"), 1);
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(children[1], &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  DestroyComms({children[0], children[1], parents[0], parents[1], parents[2]});
}

TEST_F(Comm, ShrinkNamesTheWrongArgument) {
  ncclComm_t comms[3];
  ASSERT_EQ(ncclCommInitAll(comms, 3, nullptr), ncclSuccess) << Text();
  const struct {
    std::vector<int> excluded;
    int flags;
    const char* words;
  } cases[] = {
      {{}, NCCL_SHRINK_DEFAULT, "excludeRanksCount is 0, must be at least 1"},
      {{1, 3}, NCCL_SHRINK_DEFAULT, "excludeRanksList[1] is 3, must be 0 to 2"},
      {{-1}, NCCL_SHRINK_DEFAULT, "excludeRanksList[0] is -1, must be 0 to 2"},
      {{2, 0}, NCCL_SHRINK_DEFAULT, "excludeRanksList[1] is 0, the calling rank itself"},
      {{2, 2}, NCCL_SHRINK_DEFAULT, "excludeRanksList[1] names rank 2 a second time"},
      {{1}, 2, "shrinkFlags is 2, must be NCCL_SHRINK_DEFAULT (0) or NCCL_SHRINK_ABORT (1)"},
  };
  for (const auto& wrong : cases) {
    std::vector<int> list = wrong.excluded;
    ncclComm_t child = nullptr;
    EXPECT_EQ(ncclCommShrink(comms[0], list.data(), static_cast<int>(list.size()), &child, nullptr, wrong.flags),
              ncclInvalidArgument);
    EXPECT_TRUE(TextHas(wrong.words)) << Text();
  }
  ncclComm_t child = nullptr;
  int excluded = 1;
  EXPECT_EQ(ncclCommShrink(nullptr, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms[0], nullptr, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(ncclCommShrink(comms[0], &excluded, 1, nullptr, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(Fake().Count("comm_shrink"), 0);
  DestroyComms({comms[0], comms[1], comms[2]});
}

TEST_F(Comm, RevokeIsCheckedAndDestroyAfterItMeetsNobody) {
  const ncclComm_t comm = MakeComm();
  EXPECT_EQ(ncclCommRevoke(nullptr, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(comm, 1), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument revokeFlags is 1")) << Text();
  EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_revoke"), 1);
  DestroyComms({comm});
  EXPECT_EQ(Fake().Count("comm_finalize"), 0);
}

TEST_F(Comm, SuspendAndResumeOfSeveralRanksGoInAGroup) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  EXPECT_EQ(ncclCommSuspend(comms[0], 2), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument flags is 2, must be NCCL_SUSPEND_MEM")) << Text();
  EXPECT_EQ(Fake().Count("comm_decline 3"), 1) << "the other ranks wait for this one";
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_suspend"), 0);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_suspend"), 2);
  uint64_t value = 0;
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemSuspended, &value), ncclSuccess);
  EXPECT_EQ(value, 1u);
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemTotal, &value), ncclSuccess);
  EXPECT_EQ(value, 1200u);  // as before
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemPersist, &value), ncclSuccess);
  EXPECT_EQ(value, 1000u);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommResume(comm), ncclSuccess);
  EXPECT_EQ(ncclCommMemStats(comms[0], ncclStatGpuMemSuspended, &value), ncclSuccess);
  EXPECT_EQ(value, 0u);
  DestroyComms(comms);
}

TEST_F(Comm, GrowTellsOldRanksFromNewOnes) {
  const ncclComm_t comm = MakeComm();
  ncclComm_t grown = comm;
  const ncclUniqueId id = Id();
  EXPECT_EQ(ncclCommGrow(comm, 1, &id, -1, &grown, nullptr), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument nRanks is 1, must be more than the communicator's 1")) << Text();
  EXPECT_EQ(ncclCommGrow(comm, 2, &id, 0, &grown, nullptr), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument rank is 0, must be -1")) << Text();
  EXPECT_EQ(ncclCommGrow(comm, 2, &id, -1, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 2, nullptr, 1, &grown, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 2, &id, 2, &grown, nullptr), ncclInvalidArgument);
  EXPECT_EQ(Fake().Count("comm_grow"), 0);
  EXPECT_EQ(Fake().Count("comm_decline 1"), 3) << "the other ranks wait for this one";
  ncclComm_t fresh = nullptr;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommGrow(comm, 2, &id, -1, &grown, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommGrow(nullptr, 2, &id, 1, &fresh, nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("comm_grow 2"), 1);
  EXPECT_EQ(Fake().Count("comm_create 1/2"), 1);
  DestroyComms({comm, grown, fresh});
}

}  // namespace
}  // namespace sl::frontend_nccl

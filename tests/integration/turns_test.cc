// SPDX-License-Identifier: Apache-2.0
//
// Calls that all ranks of a communicator make together: several in one group, one rank that cannot, and communicators
// that are aborted while they are under way.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr double kSoon = 10;  // the alternative is the start-up's time, 120 s

double Timed(const std::function<void()>& work) {
  const double begin = Seconds();
  work();
  return Seconds() - begin;
}

void ExpectInStep(ncclComm_t comm, int size) {
  float one = 1, sum = 0;
  NCCL_OK(ncclAllReduce(&one, &sum, 1, ncclFloat32, ncclSum, comm, nullptr));
  EXPECT_EQ(sum, static_cast<float>(size));
  NCCL_OK(ncclCommFinalize(comm));
  NCCL_OK(ncclCommDestroy(comm));
}

// Each meets its like on the other ranks: their sizes differ, so that a wrong one would be told.
TEST(Turns, WindowsOfAGroupAreRegisteredInTheirOrder) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comms[] = {team.MakeComm(), team.MakeComm()};
    std::vector<char> memory(1 << 16);
    for (int round = 0; round < 20; ++round) {
      std::vector<ncclWindow_t> windows(6);
      NCCL_OK(ncclGroupStart());
      for (size_t i = 0; i < windows.size(); ++i) {
        NCCL_OK(ncclCommWindowRegister(comms[i % 2], memory.data(), (i + 1) * 4096, &windows[i], NCCL_WIN_DEFAULT));
      }
      NCCL_OK(ncclGroupEnd());
      for (size_t i = 0; i < windows.size(); ++i) NCCL_OK(ncclCommWindowDeregister(comms[i % 2], windows[i]));
    }
    for (const ncclComm_t comm : comms) ExpectInStep(comm, 3);
  });
}

// As PyTorch does, which walks over its communicators in the order of a hash table. A rank that leaves is late for
// none.
TEST(Turns, RanksEndTheirCommunicatorsInOrdersOfTheirOwn) {
  TeamOptions exits;
  exits.end = [](int code) { std::exit(code); };
  for (const bool finalizes : {false, true}) {
    RunProcesses(
        3,
        [finalizes](Team& team) {
          ncclComm_t comms[] = {team.MakeComm(), team.MakeComm(), team.MakeComm()};
          std::rotate(std::begin(comms), comms + team.rank(), std::end(comms));
          float one = 1, sum = 0;
          for (int turn = 0; turn < 3; ++turn) {
            const ncclComm_t comm = comms[(turn + 3 - team.rank()) % 3];
            NCCL_OK(ncclAllReduce(&one, &sum, 1, ncclFloat32, ncclSum, comm, nullptr));
          }
          if (finalizes) {
            for (ncclComm_t comm : comms) NCCL_OK(ncclCommFinalize(comm));
          }
          for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
        },
        exits);
  }
}

// A window that leaves its allocation, on one rank.
TEST(Turns, AWindowThatOneRankCannotRegisterIsRefusedOnAllAtOnce) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    constexpr size_t kBytes = 1 << 20;
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, kBytes));
    ncclWindow_t window = nullptr;
    const double took = Timed([&] {
      EXPECT_NE(ncclCommWindowRegister(comm, memory, team.rank() == 1 ? 2 * kBytes : kBytes, &window, NCCL_WIN_DEFAULT),
                ncclSuccess);
    });
    EXPECT_LT(took, kSoon);
    EXPECT_TRUE(LastErrorHas("leaves its allocation"));
    if (team.rank() != 1) {
      EXPECT_TRUE(LastErrorHas("rank 1 (process "));
    }
    NCCL_OK(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_DEFAULT));
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    ExpectInStep(comm, 3);
    NCCL_OK(ncclMemFree(memory));
  });
}

TEST(Turns, AnIdThatIsNoneIsRefusedOnAllThatGrow) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const ncclUniqueId none{};
    ncclComm_t grown = comm;
    const double took = Timed([&] {
      EXPECT_NE(ncclCommGrow(comm, 4, team.rank() == 1 ? &none : nullptr, -1, &grown, nullptr), ncclSuccess);
    });
    EXPECT_LT(took, kSoon);
    EXPECT_EQ(grown, nullptr);
    EXPECT_TRUE(LastErrorHas("was not made by this library"));
    if (team.rank() != 1) {
      EXPECT_TRUE(LastErrorHas("rank 1 (process "));
    }
    ExpectInStep(comm, 3);
  });
}

// What rank 0 waits in, on a thread of its own; rank 1 does not call it.
struct Waiting {
  const char* name;
  std::function<ncclResult_t(ncclComm_t)> call;
};

class AbortBeside : public testing::TestWithParam<Waiting> {};

// The call ends with the communicator it is made on, and touches nothing of it later.
TEST_P(AbortBeside, EndsIt) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      std::atomic<bool> is_over{false};
      std::thread caller([&] {
        ++team.word(1);
        EXPECT_NE(GetParam().call(comm), ncclSuccess);
        is_over = true;
      });
      EXPECT_TRUE(WaitUntil(10, [&] { return team.word(1) == 1; }));
      usleep(20'000);  // most times it waits by then; both ways are right
      EXPECT_FALSE(is_over) << "it waits for nobody";
      EXPECT_LT(Timed([&] { NCCL_OK(ncclCommAbort(comm)); }), kSoon);
      EXPECT_LT(Timed([&] { caller.join(); }), kSoon);
      team.word(0) = 1;
    } else {
      ASSERT_TRUE(WaitUntil(60, [&] { return team.word(0) == 1; }));
      NCCL_OK(ncclCommAbort(comm));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Each, AbortBeside,
                         testing::Values(Waiting{"window",
                                                 [](ncclComm_t comm) {
                                                   static char memory[4096];
                                                   ncclWindow_t window = nullptr;
                                                   return ncclCommWindowRegister(comm, memory, sizeof(memory), &window,
                                                                                 NCCL_WIN_DEFAULT);
                                                 }},
                                         Waiting{"split",
                                                 [](ncclComm_t comm) {
                                                   ncclComm_t child = nullptr;
                                                   return ncclCommSplit(comm, 0, 0, &child, nullptr);
                                                 }},
                                         Waiting{"leave",
                                                 [](ncclComm_t comm) {
                                                   ncclComm_t child = nullptr;
                                                   return ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr);
                                                 }},
                                         Waiting{"shrink",
                                                 [](ncclComm_t comm) {
                                                   ncclComm_t child = nullptr;
                                                   int excluded = 2;
                                                   return ncclCommShrink(comm, &excluded, 1, &child, nullptr,
                                                                         NCCL_SHRINK_DEFAULT);
                                                 }},
                                         Waiting{"grow",
                                                 [](ncclComm_t comm) {
                                                   ncclComm_t child = nullptr;
                                                   return ncclCommGrow(comm, 4, nullptr, -1, &child, nullptr);
                                                 }}),
                         [](const auto& test) { return test.param.name; });

ncclResult_t AwaitState(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  WaitUntil(20, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress; });
  return state;
}

ncclComm_t MakeNonBlocking(Team& team) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = team.MakeId();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, team.size(), id, team.rank(), &config), ncclInProgress);
  EXPECT_EQ(AwaitState(comm), ncclSuccess);
  return comm;
}

// Rank 1 calls again before its first call has come to anything, hears that it is too early, and calls again later.
TEST(NonBlocking, ACallThatComesTooEarlyTakesNoTurn) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = MakeNonBlocking(team);
    const bool is_early = team.rank() == 1;
    ncclComm_t children[2] = {};
    const int color = is_early ? NCCL_SPLIT_NOCOLOR : 0;
    if (!is_early) team.Barrier();
    EXPECT_EQ(ncclCommSplit(comm, color, 0, &children[0], nullptr), ncclInProgress);
    if (is_early) {
      EXPECT_EQ(ncclCommSplit(comm, color, 0, &children[1], nullptr), ncclInvalidUsage);
      EXPECT_TRUE(LastErrorHas("still in progress"));
      EXPECT_EQ(ncclCommFinalize(comm), ncclInvalidUsage);
      EXPECT_TRUE(LastErrorHas("still in progress"));
      team.Barrier();
      EXPECT_EQ(AwaitState(comm), ncclSuccess);
    }
    EXPECT_EQ(ncclCommSplit(comm, color, 0, &children[1], nullptr), ncclInProgress);
    for (const ncclComm_t child : children) {
      if (child == nullptr) continue;
      EXPECT_EQ(AwaitState(child), ncclSuccess) << ncclGetLastError(nullptr);
      int size = 0;
      NCCL_OK(ncclCommCount(child, &size));
      EXPECT_EQ(size, 2);
      NCCL_OK(ncclCommDestroy(child));
    }
    EXPECT_EQ(AwaitState(comm), ncclSuccess);
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(AwaitState(comm), ncclSuccess);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(NonBlocking, DestroyAwaitsTheCallThatIsUnderWay) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = MakeNonBlocking(team);
    if (team.rank() == 1) usleep(100'000);
    ncclComm_t none = nullptr;
    EXPECT_EQ(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), ncclInProgress);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// A child that its own rank no longer waits for.
TEST(Turns, AbortOfAChildEndsItsSplit) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t child = nullptr;
      EXPECT_EQ(ncclCommSplit(comm, 0, 0, &child, &config), ncclInProgress);
      EXPECT_LT(Timed([&] { NCCL_OK(ncclCommAbort(child)); }), kSoon);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

// The rank where all meet gives up: the others hear who did, and not that they themselves were aborted.
TEST(Turns, AbortOfTheChildWhereAllMeetIsToldByName) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) team.word(1) = static_cast<uint64_t>(getpid());
    team.Barrier();
    int excluded = 3;
    ncclComm_t child = nullptr;
    if (team.rank() == 0) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      EXPECT_EQ(ncclCommShrink(comm, &excluded, 1, &child, &config, NCCL_SHRINK_DEFAULT), ncclInProgress);
      EXPECT_TRUE(WaitUntil(10, [&] { return team.word(0) == 1; }));
      usleep(20'000);  // most times rank 1 has come by then; both ways are right
      NCCL_OK(ncclCommAbort(child));
    } else if (team.rank() == 1) {
      team.word(0) = 1;
      EXPECT_EQ(ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclRemoteError);
      EXPECT_TRUE(LastErrorHas("rank 0 (process " + std::to_string(team.word(1))));
      EXPECT_EQ(child, nullptr);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

// Rank 2 has died, which rank 0 and 1 may hear at different times: whoever does not know waits for nobody in vain.
TEST(Turns, AShrinkWithoutTheAbortFlagFailsOnAllWhenOneRankKnowsOfALoss) {
  RunProcesses(3,
               [](Team& team) {
                 const ncclComm_t comm = team.MakeComm();
                 team.Barrier();
                 if (team.rank() == 2) raise(SIGKILL);
                 ncclResult_t state = ncclSuccess;
                 if (team.rank() == 0) {
                   const auto knows = [&] {
                     return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess;
                   };
                   EXPECT_TRUE(WaitUntil(20, knows));
                 }
                 int excluded = 2;
                 ncclComm_t child = nullptr;
                 const double took = Timed([&] {
                   EXPECT_EQ(ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclRemoteError);
                 });
                 EXPECT_LT(took, kSoon);
                 EXPECT_TRUE(LastErrorHas("is shrunk with the abort flag"));
                 ++team.word(0);  // who leaves before cannot tell the other
                 EXPECT_TRUE(WaitUntil(20, [&] { return team.word(0) == 2; }));
                 NCCL_OK(ncclCommAbort(comm));
               },
               {.may_die = 1u << 2});
}

}  // namespace
}  // namespace sl::integration

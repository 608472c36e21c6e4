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
  const TeamOptions exits = Exiting();
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

// A call that all make together, with a wrong argument or with right ones.
struct Refusable {
  const char* name;
  std::function<ncclResult_t(ncclComm_t, bool is_wrong)> call;
};

ncclResult_t CallWindow(ncclComm_t comm, bool has_buffer, size_t bytes, int flags, bool has_place) {
  static char memory[4096];
  ncclWindow_t window = nullptr;
  return ncclCommWindowRegister(comm, has_buffer ? memory : nullptr, bytes, has_place ? &window : nullptr, flags);
}

ncclResult_t CallSplit(ncclComm_t comm, int color, bool has_place, int least_ctas) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = least_ctas;
  ncclComm_t child = nullptr;
  const ncclResult_t result = ncclCommSplit(comm, color, 0, has_place ? &child : nullptr, &config);
  return result == ncclSuccess ? ncclCommDestroy(child) : result;
}

// With right arguments it is refused, too, for want of an id.
ncclResult_t CallGrow(ncclComm_t comm, int size, int rank, bool has_place) {
  ncclComm_t child = nullptr;
  return ncclCommGrow(comm, size, nullptr, rank, has_place ? &child : nullptr, nullptr);
}

const Refusable kRefusables[] = {
    {"window without a buffer", [](ncclComm_t comm, bool bad) { return CallWindow(comm, !bad, 64, 0, true); }},
    {"window of no bytes", [](ncclComm_t comm, bool bad) { return CallWindow(comm, true, bad ? 0 : 64, 0, true); }},
    {"window with flags", [](ncclComm_t comm, bool bad) { return CallWindow(comm, true, 64, bad ? 64 : 0, true); }},
    {"window to nowhere", [](ncclComm_t comm, bool bad) { return CallWindow(comm, true, 64, 0, !bad); }},
    {"split by color", [](ncclComm_t comm, bool bad) { return CallSplit(comm, bad ? -7 : 0, true, 1); }},
    {"split to nowhere", [](ncclComm_t comm, bool bad) { return CallSplit(comm, 0, !bad, 1); }},
    {"split by config", [](ncclComm_t comm, bool bad) { return CallSplit(comm, 0, true, bad ? -5 : 1); }},
    {"grow to size", [](ncclComm_t comm, bool bad) { return CallGrow(comm, bad ? 2 : 5, -1, true); }},
    {"grow as rank", [](ncclComm_t comm, bool bad) { return CallGrow(comm, 5, bad ? 1 : -1, true); }},
    {"grow to nowhere", [](ncclComm_t comm, bool bad) { return CallGrow(comm, 5, -1, !bad); }},
    {"suspend by flags",
     [](ncclComm_t comm, bool bad) {
       const ncclResult_t result = ncclCommSuspend(comm, bad ? 64 : NCCL_SUSPEND_MEM);
       return result == ncclSuccess ? ncclCommResume(comm) : result;
     }},
};

TEST(Turns, AnArgumentThatOneRankGetsWrongIsToldToAll) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (const Refusable& one : kRefusables) {
      SCOPED_TRACE(one.name);
      for (const int wrong : {0, 1, 3}) {
        team.Barrier();
        const bool is_wrong = team.rank() == wrong;
        if (team.rank() == 2) usleep(20'000);  // who is wrong waits for nobody
        ncclResult_t result = ncclSuccess;
        EXPECT_LT(Timed([&] { result = one.call(comm, is_wrong); }), kSoon);
        EXPECT_EQ(result, is_wrong ? ncclInvalidArgument : ncclInvalidUsage) << ncclGetLastError(nullptr);
        if (!is_wrong) {
          EXPECT_TRUE(LastErrorHas("rank " + std::to_string(wrong) + " (process "));
          EXPECT_TRUE(LastErrorHas("refused there"));
        }
        ncclResult_t state = ncclInternalError;
        NCCL_OK(ncclCommGetAsyncError(comm, &state));
        EXPECT_EQ(state, ncclSuccess);
      }
    }
    ExpectInStep(comm, 4);
  });
}

TEST(Turns, AnArgumentThatAllRanksGetWrongKeepsThemInStep) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (const Refusable& one : kRefusables) EXPECT_EQ(one.call(comm, true), ncclInvalidArgument) << one.name;
    EXPECT_EQ(CallSplit(comm, 0, true, 1), ncclSuccess);
    EXPECT_EQ(CallWindow(comm, true, 64, 0, true), ncclSuccess);
    ExpectInStep(comm, 3);
  });
}

// The others make no call that it could belong to, but the next one.
TEST(Turns, ARankThatAloneMakesAWrongCallHoldsNobodyUp) {
  const std::pair<size_t, std::function<ncclResult_t(ncclComm_t)>> next[] = {
      {0, [](ncclComm_t comm) { return CallSplit(comm, 0, true, 1); }},
      {4, [](ncclComm_t comm) { return CallWindow(comm, true, 64, 0, true); }},
      {7, [](ncclComm_t comm) { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); }},
      {4, [](ncclComm_t comm) { return ncclCommResume(comm); }},
      {4, [](ncclComm_t comm) { return CallWindow(comm, true, 64, 0, true); }},
      {1, [](ncclComm_t comm) { return CallSplit(comm, 0, true, 1); }},
      {1, ncclCommFinalize},
  };
  RunProcesses(4, [&next](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (const auto& [wrong, call] : next) {
      SCOPED_TRACE(kRefusables[wrong].name);
      if (team.rank() == 1) {
        EXPECT_NE(kRefusables[wrong].call(comm, true), ncclSuccess);
      }
      ncclResult_t result = ncclSuccess;
      EXPECT_LT(Timed([&] { result = call(comm); }), kSoon);
      EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Turns, AWrongArgumentInAGroupIsToldForAllOfTheGroup) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const ncclComm_t other = team.MakeComm();
    static char memory[4096];
    ncclWindow_t windows[3] = {};
    ncclComm_t child = nullptr;
    const double took = Timed([&] {
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclCommWindowRegister(comm, memory, 64, &windows[0], 0));
      EXPECT_EQ(ncclCommWindowRegister(comm, memory, team.rank() == 1 ? 0 : 64, &windows[1], 0),
                team.rank() == 1 ? ncclInvalidArgument : ncclSuccess);
      NCCL_OK(ncclCommWindowRegister(other, memory, 64, &windows[2], 0));
      EXPECT_NE(ncclGroupEnd(), ncclSuccess);
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclCommSplit(other, 0, 0, &child, nullptr));
      if (team.rank() == 2) {
        EXPECT_EQ(ncclCommSplit(other, -9, 0, &child, nullptr), ncclInvalidArgument);
      }
      EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    });
    EXPECT_LT(took, kSoon);
    EXPECT_EQ(CallSplit(comm, 0, true, 1), ncclSuccess);
    ExpectInStep(other, 3);
    ExpectInStep(comm, 3);
  });
}

ncclResult_t CallBadWindow(ncclComm_t comm) { return CallWindow(comm, true, 0, 0, true); }

// Each group has two calls, of which rank 1 gets the second wrong.
TEST(Turns, CallsOfADroppedGroupAreToldInTheOrderInWhichTheOthersMakeThem) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const auto group = [&](const std::function<ncclResult_t()>& first, const std::function<ncclResult_t()>& second) {
      NCCL_OK(ncclGroupStart());
      EXPECT_EQ(first(), ncclSuccess);
      EXPECT_EQ(team.rank() == 1 ? CallBadWindow(comm) : second(),
                team.rank() == 1 ? ncclInvalidArgument : ncclSuccess);
      EXPECT_LT(Timed([&] { EXPECT_NE(ncclGroupEnd(), ncclSuccess); }), kSoon);
    };
    static char memory[4096];
    ncclWindow_t windows[2] = {};
    ncclComm_t child = nullptr;
    const auto window = [&] { return ncclCommWindowRegister(comm, memory, 64, &windows[0], 0); };
    const auto suspend = [&] { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); };
    const auto split = [&] { return ncclCommSplit(comm, 0, 0, &child, nullptr); };
    group(suspend, window);
    EXPECT_EQ(CallSplit(comm, 0, true, 1), ncclSuccess);
    // Windows come last, whatever the order of the calls.
    NCCL_OK(ncclGroupStart());
    NCCL_OK(window());
    NCCL_OK(split());
    if (team.rank() == 1) {
      EXPECT_EQ(ncclCommSplit(comm, -9, 0, &child, nullptr), ncclInvalidArgument);
    } else {
      NCCL_OK(split());
    }
    EXPECT_LT(Timed([&] { EXPECT_NE(ncclGroupEnd(), ncclSuccess); }), kSoon);
    EXPECT_LT(Timed([&] { EXPECT_EQ(CallWindow(comm, true, 64, 0, true), ncclSuccess); }), kSoon);
    // A resume that a rank drops leaves all suspended.
    NCCL_OK(suspend());
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommResume(comm));
    if (team.rank() == 1) {
      EXPECT_EQ(ncclCommSuspend(comm, 64), ncclInvalidArgument);
    }
    EXPECT_LT(Timed([&] { EXPECT_NE(ncclGroupEnd(), ncclSuccess); }), kSoon);
    EXPECT_LT(Timed([&] { NCCL_OK(ncclCommResume(comm)); }), kSoon);
    ExpectInStep(comm, 3);
  });
}

// Both are collective over the parent, and it has one worker.
TEST(Turns, ARankWithoutAColorTakesPartInEverySplitOfAGroup) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ncclComm_t children[3] = {};
    const double took = Timed([&] {
      NCCL_OK(ncclGroupStart());
      for (int i = 0; i < 3; ++i) {
        NCCL_OK(ncclCommSplit(comm, team.rank() == i ? 0 : NCCL_SPLIT_NOCOLOR, 0, &children[i], nullptr));
      }
      NCCL_OK(ncclGroupEnd());
    });
    EXPECT_LT(took, kSoon);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(children[i] != nullptr, team.rank() == i);
      if (children[i] != nullptr) {
        NCCL_OK(ncclCommDestroy(children[i]));
      }
    }
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclCommSplit(comm, team.rank() == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &children[0], nullptr));
    NCCL_OK(ncclCommFinalize(comm));
    EXPECT_LT(Timed([&] { NCCL_OK(ncclGroupEnd()); }), kSoon);
    if (children[0] != nullptr) {
      NCCL_OK(ncclCommDestroy(children[0]));
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Turns, AFinalizeThatMeetsAnotherCallSaysSo) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const auto call = [&] { return team.rank() == 0 ? ncclCommFinalize(comm) : CallWindow(comm, true, 64, 0, true); };
    EXPECT_LT(Timed([&] { EXPECT_EQ(call(), ncclInvalidUsage); }), kSoon);
    EXPECT_TRUE(LastErrorHas("called something else than"));
    NCCL_OK(ncclCommAbort(comm));
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

// Rank 0, where all meet, stands still.
TEST(Turns, AbortOfTheParentEndsAShrink) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      team.word(0) = static_cast<uint64_t>(getpid());
      raise(SIGSTOP);
    } else if (team.rank() == 1) {
      ASSERT_TRUE(WaitUntil(10, [&] { return team.word(0) != 0; }));
      const auto first = static_cast<pid_t>(team.word(0));
      usleep(20'000);
      std::thread caller([&] {
        ncclComm_t child = nullptr;
        int excluded = 2;
        EXPECT_NE(ncclCommShrink(comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
      });
      usleep(200'000);  // most times it waits by then; both ways are right
      EXPECT_LT(Timed([&] { NCCL_OK(ncclCommAbort(comm)); }), kSoon);
      EXPECT_LT(Timed([&] { caller.join(); }), kSoon);
      kill(first, SIGCONT);
      team.word(1) = 1;
      return;
    }
    ASSERT_TRUE(WaitUntil(60, [&] { return team.word(1) == 1; }));
    NCCL_OK(ncclCommAbort(comm));
  });
}

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

// Rank 1 calls again, and finalizes, before its first call has come to anything.
TEST(NonBlocking, CallsThatComeEarlyAreMadeInTheirOrder) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = MakeNonBlocking(team);
    const bool is_early = team.rank() == 1;
    ncclComm_t children[2] = {};
    const int color = is_early ? NCCL_SPLIT_NOCOLOR : 0;
    if (!is_early) team.Barrier();
    EXPECT_EQ(ncclCommSplit(comm, color, 0, &children[0], nullptr), ncclInProgress);
    EXPECT_EQ(ncclCommSplit(comm, color, 0, &children[1], nullptr), ncclInProgress);
    if (is_early) {
      EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
      team.Barrier();
    }
    for (const ncclComm_t child : children) {
      if (child == nullptr) continue;
      EXPECT_EQ(AwaitState(child), ncclSuccess) << ncclGetLastError(nullptr);
      int size = 0;
      NCCL_OK(ncclCommCount(child, &size));
      EXPECT_EQ(size, 2);
      NCCL_OK(ncclCommDestroy(child));
    }
    if (!is_early) {
      EXPECT_EQ(AwaitState(comm), ncclSuccess);
      EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    }
    EXPECT_EQ(AwaitState(comm), ncclSuccess);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Two communicators in opposite orders on two ranks, as programs that poll end them.
TEST(NonBlocking, RanksEndTheirCommunicatorsInOrdersOfTheirOwn) {
  RunProcesses(
      2,
      [](Team& team) {
        ncclComm_t comms[] = {MakeNonBlocking(team), MakeNonBlocking(team)};
        if (team.rank() == 1) std::swap(comms[0], comms[1]);
        for (const ncclComm_t comm : comms) {
          EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
          EXPECT_EQ(AwaitState(comm), ncclSuccess) << ncclGetLastError(nullptr);
        }
        for (const ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
      },
      Exiting());
}

// For ThreadSanitizer: what chooses algorithms goes and comes on another thread meanwhile.
TEST(NonBlocking, EstimatesAreMadeOrRefusedBesideASuspend) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = MakeNonBlocking(team);
    int made = 0, refused = 0;
    const auto estimate = [&] {
      float value = 0;
      ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
      NCCL_OK(ncclGroupStart());
      ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
      ++(ncclGroupSimulateEnd(&info) == ncclSuccess ? made : refused);
    };
    for (int round = 0; round < 5; ++round) {
      for (const bool suspends : {true, false}) {
        EXPECT_EQ(suspends ? ncclCommSuspend(comm, NCCL_SUSPEND_MEM) : ncclCommResume(comm), ncclInProgress);
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) {
          estimate();
          NCCL_OK(ncclCommGetAsyncError(comm, &state));
        }
        EXPECT_EQ(state, ncclSuccess);
      }
      estimate();
    }
    EXPECT_GE(made, 5);
    EXPECT_GE(refused, 5);
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

// It was told to who made the call.
TEST(Turns, ACallThatIsRefusedLeavesTheCommunicatorWell) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ncclComm_t none = nullptr;
    const std::function<ncclResult_t()> calls[] = {
        [&] { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); },
        [&] { return ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr); },
    };
    for (const auto& call : calls) {
      EXPECT_EQ(team.rank() == 1 ? CallWindow(comm, true, 64, 0, true) : call(), ncclInvalidUsage);
      ncclResult_t state = ncclInternalError;
      NCCL_OK(ncclCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, ncclSuccess);
    }
    ExpectInStep(comm, 3);
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

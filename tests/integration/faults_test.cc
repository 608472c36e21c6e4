// SPDX-License-Identifier: Apache-2.0
//
// Ranks that die, stay away, or call something else: everybody else learns who, in what operation and where, in time.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// Measured with a monotonic clock that all processes share. Far above what these take, so that a busy machine passes,
// and far below the two minutes and the half hour after which those would give up who had not been told.
constexpr double kNoticeSeconds = 10;
constexpr double kAbortSeconds = 5;

constexpr int kVictim = 1;
constexpr size_t kSmall = 2;
constexpr size_t kLarge = 4 << 20;

enum class Act { kAllReduce, kBroadcast, kMessages };
const char* const kActNames[] = {"all_reduce", "broadcast", "send|recv"};

// One operation that every rank needs the victim for.
ncclResult_t Perform(Act act, const Team& team, std::vector<float>* a, std::vector<float>* b, ncclComm_t comm,
                     cudaStream_t stream) {
  switch (act) {
    case Act::kAllReduce:
      return ncclAllReduce(a->data(), b->data(), a->size(), ncclFloat32, ncclSum, comm, stream);
    case Act::kBroadcast:
      return ncclBroadcast(a->data(), b->data(), a->size(), ncclFloat32, kVictim, comm, stream);
    default:
      break;
  }
  ncclResult_t result = ncclGroupStart();
  for (int peer = 0; peer < team.size() && result == ncclSuccess; ++peer) {
    const bool pair = peer != team.rank() && (peer == kVictim || team.rank() == kVictim);
    if (pair) result = ncclSend(a->data(), a->size(), ncclFloat32, peer, comm, stream);
    if (pair && result == ncclSuccess) result = ncclRecv(b->data(), b->size(), ncclFloat32, peer, comm, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

// The text names the rank that died and the operation, and, inside it, the step.
void ExpectVictimNamed(Act act) {
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  const std::string name = kActNames[static_cast<int>(act)];
  const size_t bar = name.find('|');
  const bool named = text.find(name.substr(0, bar)) != std::string::npos ||
                     (bar != std::string::npos && text.find(name.substr(bar + 1)) != std::string::npos);
  EXPECT_TRUE(named) << text;
  EXPECT_TRUE(text.find("step") != std::string::npos || text.find("not started") != std::string::npos) << text;
}

void ExpectQuickAbort(ncclComm_t comm) {
  const double start = Seconds();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_LT(Seconds() - start, kAbortSeconds);
}

// Word 0 holds when the victim died, in microseconds.
[[noreturn]] void Die(Team& team) {
  team.word(0).store(static_cast<uint64_t>(Seconds() * 1e6));
  kill(getpid(), SIGKILL);
  abort();
}

double SecondsSinceDeath(Team& team) { return Seconds() - static_cast<double>(team.word(0).load()) * 1e-6; }

struct Killing {
  Act act;
  size_t count;
  bool midway;  // while it works, from another thread; else after a few calls, while the others wait
};

void BeVictim(Team& team, const Killing& killing, ncclComm_t comm) {
  std::vector<float> a(killing.count, 1), b(killing.count);
  std::thread killer;
  if (killing.midway) {
    killer = std::thread([&team] {
      usleep(60'000);
      Die(team);
    });
  }
  for (int call = 0; killing.midway || call < 3; ++call) {
    NCCL_OK(Perform(killing.act, team, &a, &b, comm, nullptr));
  }
  Die(team);
}

void SurviveAndAbort(Team& team, const Killing& killing, ncclComm_t comm) {
  std::vector<float> a(killing.count, 1), b(killing.count);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) result = Perform(killing.act, team, &a, &b, comm, nullptr);
  EXPECT_LT(SecondsSinceDeath(team), kNoticeSeconds);
  EXPECT_EQ(result, ncclRemoteError) << ncclGetLastError(nullptr);
  ExpectVictimNamed(killing.act);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
  ExpectQuickAbort(comm);
}

TeamOptions VictimMayDie() {
  TeamOptions options;
  options.may_die = 1u << kVictim;
  return options;
}

class KilledRank : public testing::TestWithParam<Killing> {};

TEST_P(KilledRank, IsNamedByEverySurvivorInTime) {
  const Killing killing = GetParam();
  RunProcesses(
      3,
      [&](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        ASSERT_NE(comm, nullptr);
        if (team.rank() == kVictim) return BeVictim(team, killing, comm);
        SurviveAndAbort(team, killing, comm);
      },
      VictimMayDie());
}

std::string KillingName(const testing::TestParamInfo<Killing>& info) {
  constexpr const char* kActs[] = {"AllReduce", "Broadcast", "Messages"};
  return std::string(kActs[static_cast<int>(info.param.act)]) + (info.param.count == kSmall ? "Small" : "Large") +
         (info.param.midway ? "Midway" : "Before");
}

INSTANTIATE_TEST_SUITE_P(Each, KilledRank,
                         testing::Values(Killing{Act::kAllReduce, kSmall, false},
                                         Killing{Act::kAllReduce, kSmall, true},
                                         Killing{Act::kAllReduce, kLarge, false},
                                         Killing{Act::kAllReduce, kLarge, true},
                                         Killing{Act::kBroadcast, kSmall, false},
                                         Killing{Act::kBroadcast, kLarge, true}, Killing{Act::kMessages, kSmall, false},
                                         Killing{Act::kMessages, kLarge, false}, Killing{Act::kMessages, kLarge, true}),
                         KillingName);

TEST(Faults, OnAStreamAreReportedAsynchronously) {
  RunProcesses(
      3,
      [](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        team.Barrier();
        if (team.rank() == kVictim) Die(team);
        HostStream stream;
        std::vector<float> a(1000, 1), b(1000);
        const ncclResult_t issued = Perform(Act::kAllReduce, team, &a, &b, comm, stream.get());
        EXPECT_TRUE(issued == ncclSuccess || issued == ncclRemoteError);
        ncclResult_t state = ncclSuccess;
        EXPECT_TRUE(WaitUntil(kNoticeSeconds, [&] {
          return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess;
        }));
        EXPECT_EQ(state, ncclRemoteError);
        EXPECT_TRUE(LastErrorHas("rank 1"));
        EXPECT_LT(SecondsSinceDeath(team), kNoticeSeconds);
        ExpectQuickAbort(comm);
        EXPECT_TRUE(stream.Synchronize());
      },
      VictimMayDie());
}

// A child that the dead rank had forked and that lives on must not keep its sockets open.
TEST(Faults, OfAProcessWithAForkedChildAreNoticed) {
  RunProcesses(
      3,
      [](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        team.Barrier();
        if (team.rank() == kVictim) {
          if (fork() == 0) {
            for (int i = 0; i < 1000 && getppid() != 1; ++i) usleep(1000);
            sleep(4);
            _exit(0);
          }
          usleep(20'000);
          Die(team);
        }
        SurviveAndAbort(team, {Act::kAllReduce, kSmall, false}, comm);
      },
      VictimMayDie());
}

TEST(AbsentRank, IsNamedWhenACommunicatorIsMade) {
  // Long enough for the two that do come to load everything under a sanitizer: one of them serves the rendezvous, and
  // ends with it.
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "2500");
  RunProcesses(4, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    const double start = Seconds();
    if (team.rank() == 1 || team.rank() == 3) return;
    EXPECT_EQ(ncclCommInitRank(&comm, 4, id, team.rank()), ncclRemoteError);
    EXPECT_TRUE(LastErrorHas("rank 1, 3 did not arrive within 2500 ms"));
    EXPECT_EQ(comm, nullptr);
    EXPECT_LT(Seconds() - start, 8);
  });
}

// Sends and receives are not counted: of those a rank sees only that its peer's half has not come.
const char* WhatIsMissing(Act act) {
  return act == Act::kMessages ? "it is not known whether rank 1" : "not called by rank 1";
}

TEST(AbsentRank, IsNamedWhenItDoesNotCallTheOperation) {
  // Long enough for the two that do call to have both done so.
  const Environment timeout("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  for (Act act : {Act::kAllReduce, Act::kBroadcast, Act::kMessages}) {
    for (size_t count : {kSmall, kLarge}) {
      RunProcesses(3, [act, count](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        std::vector<float> a(count, 1), b(count);
        team.Barrier();
        if (team.rank() == kVictim) {
          team.Barrier();
          // Those who gave up have said so: now it is this rank that must not wait for them.
          ncclResult_t state = ncclSuccess;
          EXPECT_TRUE(WaitUntil(
              10, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess; }));
          EXPECT_EQ(Perform(act, team, &a, &b, comm, nullptr), ncclRemoteError);
          EXPECT_TRUE(LastErrorHas(WhatIsMissing(act)));
          ExpectQuickAbort(comm);
          return;
        }
        EXPECT_EQ(Perform(act, team, &a, &b, comm, nullptr), ncclRemoteError);
        ExpectVictimNamed(act);
        EXPECT_TRUE(LastErrorHas(WhatIsMissing(act)));
        ExpectQuickAbort(comm);
        team.Barrier();
      });
    }
  }
}

// A rank does not see what ranks of other hosts have called, so it accuses nobody.
TEST(AbsentRank, IsNotGuessedBetweenHosts) {
  const Environment timeout("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  const Environment loopback("NCCL_SOCKET_IFNAME", "=lo");
  RunProcesses(2, [](Team& team) {
    setenv("NCCL_HOSTID", std::to_string(team.rank()).c_str(), 1);
    const ncclComm_t comm = team.MakeComm();
    team.Barrier();
    if (team.rank() != kVictim) {
      std::vector<float> a(kSmall, 1), b(kSmall);
      EXPECT_EQ(Perform(Act::kAllReduce, team, &a, &b, comm, nullptr), ncclRemoteError);
      EXPECT_TRUE(LastErrorHas("; who has called it is not known between hosts"));
    }
    team.Barrier();
    ExpectQuickAbort(comm);
  });
}

}  // namespace
}  // namespace sl::integration

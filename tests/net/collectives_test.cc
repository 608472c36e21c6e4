// SPDX-License-Identifier: Apache-2.0
//
// Operations between hosts: right results whatever the placement, and over connections that come and go.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/nccl_case.h"
#include "tests/integration/team.h"
#include "tests/net/network.h"

namespace sl::net {
namespace {

using integration::Environment;
using integration::Kind;
using integration::NcclBuffers;
using integration::NcclCase;
using integration::RunProcesses;
using integration::Team;
using integration::TeamOptions;

struct Layout {
  const char* name;
  int hosts;
  int ranks;
  bool in_turn;  // rank r lies on host r % hosts; else neighbours share a host
};

class Collectives : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    network_ = std::make_unique<Network>(GetParam().hosts);
    if (!network_->missing().empty()) GTEST_SKIP() << network_->missing();
  }

  // Without a profile, the default one serves.
  void Run(const integration::Body& body, const std::string& profile = "") {
    const std::string file = std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/" + profile;
    const Environment named("STARLING_PROFILE", profile.empty() ? "auto" : file.c_str());
    RunProcesses(GetParam().ranks, [&](Team& team) {
      network_->Enter(HostOf(team.rank()));
      body(team);
    });
  }
  int HostOf(int rank) const {
    const Layout& layout = GetParam();
    return layout.in_turn ? rank % layout.hosts : rank * layout.hosts / layout.ranks;
  }

  std::unique_ptr<Network> network_;
};

std::string Perform(ncclComm_t comm, Team& team, const NcclCase& test) {
  NcclBuffers buffers(test, team.rank(), team.size());
  if (buffers.Issue(comm, nullptr) != ncclSuccess) return test.ToString() + ": " + ncclGetLastError(nullptr);
  const std::string wrong = buffers.Check();
  return wrong.empty() ? "" : test.ToString() + ": " + wrong;
}

void PerformEvery(Team& team) {
  const ncclComm_t comm = team.MakeComm();
  ASSERT_NE(comm, nullptr);
  uint32_t salt = 0;
  for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{17}, size_t{5000}, size_t{300'007}}) {
      for (const bool in_place : {false, true}) {
        NcclCase test;
        test.kind = static_cast<Kind>(kind);
        test.count = count;
        test.in_place = in_place;
        test.root = team.size() - 1;
        test.salt = ++salt;
        ASSERT_EQ(Perform(comm, team, test), "");
      }
    }
  }
  NCCL_OK(ncclCommFinalize(comm));
  NCCL_OK(ncclCommDestroy(comm));
}

TEST_P(Collectives, AreRight) { Run(PerformEvery); }

// A ring of messages, then everybody leaves at once: the last of them must arrive all the same.
TEST_P(Collectives, MessagesArriveThoughTheirSendersLeave) {
  Run([](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    std::vector<int> send(100'000, team.rank());
    std::vector<int> recv(send.size(), -1);
    const int next = (team.rank() + 1) % team.size();
    const int previous = (team.rank() + team.size() - 1) % team.size();
    for (int turn = 0; turn < 3; ++turn) {
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(send.data(), send.size(), ncclInt32, next, comm, nullptr));
      NCCL_OK(ncclRecv(recv.data(), recv.size(), ncclInt32, previous, comm, nullptr));
      NCCL_OK(ncclGroupEnd());
    }
    EXPECT_EQ(recv, std::vector<int>(send.size(), previous));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// One rank calls something else and waits for the others as they wait for it: no byte of the one meets the other.
TEST_P(Collectives, SayWhatDiffersThoughNobodyGetsAny) {
  Run([](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    std::vector<float> data(1000, 1);
    NCCL_OK(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr));
    const bool differs = team.rank() == team.size() - 1;
    const ncclResult_t result =
        differs ? ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, 0, comm, nullptr)
                : ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
    EXPECT_NE(result, ncclSuccess);
    const std::string words = ncclGetLastError(comm);
    for (const char* part : {"all_reduce of 1000 float32", "broadcast of 1000 float32"}) {
      EXPECT_NE(words.find(part), std::string::npos) << "rank " << team.rank() << ": " << words;
    }
    NCCL_OK(ncclCommAbort(comm));
  });
}

// One whose part of the other call was soon done has gone on, and waits in the next.
TEST_P(Collectives, SayWhatDifferedInAnEarlierCall) {
  Run([](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    std::vector<float> data(10, 1);
    const int last = team.size() - 1;
    ncclResult_t result = ncclSuccess;
    if (team.rank() == last) {
      result = ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, last, comm, nullptr);
    }
    while (result == ncclSuccess) {
      result = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, nullptr);
    }
    const std::string words = ncclGetLastError(comm);
    for (const char* part : {"all_reduce of 10 float32", "broadcast of 10 float32"}) {
      EXPECT_NE(words.find(part), std::string::npos) << "rank " << team.rank() << ": " << words;
    }
    NCCL_OK(ncclCommAbort(comm));
  });
}

INSTANTIATE_TEST_SUITE_P(On, Collectives,
                         testing::Values(Layout{"TwoHosts", 2, 2, true}, Layout{"TwoHostsOfTwo", 2, 4, false},
                                         Layout{"TwoHostsInTurn", 2, 4, true}, Layout{"UnevenHosts", 3, 5, true},
                                         Layout{"SevenHosts", 7, 7, true}),
                         [](const auto& test) { return std::string(test.param.name); });

// What the last rank calls otherwise than the others, which lie on another host or on its own.
struct Difference {
  const char* name;
  size_t count;
  ncclDataType_t type;
  bool broadcasts;
};

class Differing : public Collectives {};
INSTANTIATE_TEST_SUITE_P(On, Differing,
                         testing::Values(Layout{"TwoHosts", 2, 2, true}, Layout{"TwoHostsOfTwo", 2, 4, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Differing, CallsAreNamedOnEveryRank) {
  for (const Difference& difference :
       {Difference{"count", 2000, ncclInt32, false}, Difference{"type", 1000, ncclFloat32, false},
        Difference{"large count", 300'000, ncclInt32, false}, Difference{"collective", 1000, ncclInt32, true}}) {
    SCOPED_TRACE(difference.name);
    // Where ranks of a host wait for each other first, no chunk of one call meets the other: that ends with the time
    // limit.
    if (difference.broadcasts && GetParam().hosts != GetParam().ranks) continue;
    Run([&](Team& team) {
      const ncclComm_t comm = team.MakeComm();
      ASSERT_NE(comm, nullptr);
      std::vector<int> send(300'000, 1), recv(send.size(), 0);
      ncclResult_t result = ncclSuccess;
      if (team.rank() != team.size() - 1) {
        result = ncclAllReduce(send.data(), recv.data(), 1000, ncclInt32, ncclSum, comm, nullptr);
      } else if (difference.broadcasts) {
        result = ncclBroadcast(send.data(), recv.data(), difference.count, difference.type, 0, comm, nullptr);
      } else {
        result = ncclAllReduce(send.data(), recv.data(), difference.count, difference.type, ncclSum, comm, nullptr);
      }
      // Who was done before the others found out hears of it, too.
      ncclResult_t state = result;
      EXPECT_TRUE(integration::WaitUntil(20, [&] {
        return state != ncclSuccess || ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess;
      }));
      const std::string words = ncclGetLastError(comm);
      EXPECT_NE(words.find("do not match"), std::string::npos) << words;
      EXPECT_NE(words.find("rank " + std::to_string(team.size() - 1) + " called"), std::string::npos) << words;
      NCCL_OK(ncclCommAbort(comm));
    });
  }
}

// Where nothing else may serve them.
class TwoLevel : public Collectives {
 protected:
  void SetUp() override {
    const std::string module = std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/starling/algo-two-level.so";
    if (access(module.c_str(), R_OK) != 0) GTEST_SKIP() << "algo-two-level is not built";
    Collectives::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(On, TwoLevel,
                         testing::Values(Layout{"TwoHostsOfTwo", 2, 4, false}, Layout{"TwoHostsInTurn", 2, 4, true},
                                         Layout{"UnevenHosts", 3, 5, true}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(TwoLevel, ServesEveryCollective) { Run(PerformEvery, "tests/net/two_level.toml"); }

// Bytes that leave host 0 while `test` is performed a few times, each; all ranks hear the same number.
double BytesOverTheBorder(const Network& network, ncclComm_t comm, Team& team, NcclCase test) {
  constexpr uint32_t kTurns = 4;
  EXPECT_EQ(Perform(comm, team, test), "");  // connects
  team.Barrier();
  const uint64_t before = network.SentBytes(0);
  team.Barrier();
  for (test.salt = 1; test.salt <= kTurns; ++test.salt) EXPECT_EQ(Perform(comm, team, test), "");
  team.Barrier();
  if (team.rank() == 0) team.word(0) = network.SentBytes(0) - before;
  team.Barrier();
  return static_cast<double>(team.word(0)) / kTurns;
}

// What border_test counts from plans, on the wire: two hosts of two ranks send each other half of an all-reduce twice,
// their own blocks, or sums for the others' blocks; flat plans send as many times that as a host has ranks.
class Borders : public TwoLevel {
 protected:
  void ExpectShares(const char* profile, double shares) {
    Run(
        [&](Team& team) {
          const ncclComm_t comm = team.MakeComm();
          ASSERT_NE(comm, nullptr);
          for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter}) {
            NcclCase test;
            test.kind = kind;
            test.count = kind == Kind::kAllReduce ? 500'000 : 250'000;
            const double expected = shares * 500'000 * sizeof(float);
            const double most = expected * 1.1;  // headers, acknowledgements, beats
            double sent = BytesOverTheBorder(*network_, comm, team, test);
            // On a busy host TCP sends some a second time.
            for (int more = 0; more < 2 && sent > most; ++more) sent = BytesOverTheBorder(*network_, comm, team, test);
            EXPECT_GE(sent, expected) << test.ToString();
            EXPECT_LE(sent, most) << test.ToString();
          }
          NCCL_OK(ncclCommDestroy(comm));
        },
        profile);
  }
};
INSTANTIATE_TEST_SUITE_P(On, Borders, testing::Values(Layout{"TwoHostsOfTwo", 2, 4, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Borders, AreCrossedOnceByWhatIsNeeded) { ExpectShares("tests/net/two_level.toml", 1); }
TEST_P(Borders, AreCrossedByEveryRankWithoutLevels) { ExpectShares("tests/net/direct.toml", 2); }

// TCP sockets of this host that listen.
int Listeners() {
  int count = 0;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    for (std::string line; std::getline(table, line);) count += line.find(" 0A ") != std::string::npos ? 1 : 0;
  }
  return count;
}

class Ports : public Collectives {};
INSTANTIATE_TEST_SUITE_P(On, Ports, testing::Values(Layout{"OneHost", 1, 4, false}, Layout{"TwoHosts", 2, 4, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// The process that made the id listens for ranks of other hosts, since it cannot know whether there are any.
TEST_P(Ports, OfNetworksAreOpenOnlyBetweenHosts) {
  Run([](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    NcclCase test;
    test.count = 1000;
    EXPECT_EQ(Perform(comm, team, test), "");
    team.Barrier();
    if (GetParam().hosts == 1) {
      EXPECT_EQ(Listeners(), 1);
    } else {
      EXPECT_GE(Listeners(), GetParam().ranks / GetParam().hosts) << "each rank of this host";
    }
    team.Barrier();
    NCCL_OK(ncclCommDestroy(comm));
  });
}

class Waits : public Collectives {};
INSTANTIATE_TEST_SUITE_P(On, Waits,
                         testing::Values(Layout{"TwoHosts", 2, 2, true}, Layout{"TwoHostsOfTwo", 2, 4, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// How often the calling thread has gone to sleep by itself.
int64_t Sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// Who waits for a slow rank wakes only to look at abort words, every ten milliseconds, and not to ask the network.
TEST_P(Waits, SleepUntilTheSlowRankCalls) {
  Run([](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    NcclCase test;
    test.count = 2;
    for (uint32_t turn = 0; turn < 3; ++turn) {
      test.salt = turn;
      ASSERT_EQ(Perform(comm, team, test), "");  // also the first, which connects
      team.Barrier();
      if (team.rank() == team.size() - 1) usleep(400'000);  // the slowness itself
      const int64_t sleeps = Sleeps();
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_EQ(Perform(comm, team, test), "");
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(Sleeps() - sleeps, static_cast<int64_t>(200 * waited.count()) + 60) << waited.count() << " s";
    }
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// An outage is as long as the commands of the test and the machine's other work make it: only the loss is tested here.
class Cables : public Collectives {
  const Environment patience_{"STARLING_COMM_SILENCE_MS", "10000"};
};
INSTANTIATE_TEST_SUITE_P(On, Cables, testing::Values(Layout{"TwoHostsOfTwo", 2, 4, false}),
                         [](const auto& test) { return std::string(test.param.name); });

// In the middle of operations, for less than the patience with a silent host.
TEST_P(Cables, OutAndBackAgainLoseNothing) {
  Run([&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    NcclCase test;
    test.count = 1'000'000;
    for (uint32_t turn = 0; turn < 12; ++turn) {
      // Rank 0 drives the cable of the other host, from a process of its own, while everybody is in an operation.
      pid_t puller = -1;
      if (team.rank() == 0 && turn % 4 == 1) {
        puller = fork();
        if (puller == 0) {
          network_->SetCable(1, false);
          usleep(300'000);  // the outage itself
          network_->SetCable(1, true);
          _exit(0);
        }
      }
      test.salt = turn;
      ASSERT_EQ(Perform(comm, team, test), "");
      if (puller > 0) waitpid(puller, nullptr, 0);
      team.Barrier();
    }
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::net

// SPDX-License-Identifier: Apache-2.0
//
// Ranks of several hosts meet, agree, and learn of each other's end.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sdk/fd.h"
#include "tests/integration/team.h"
#include "tests/net/network.h"

namespace sl::net {
namespace {

using integration::Environment;
using integration::RunProcesses;
using integration::Seconds;
using integration::Team;
using integration::TeamOptions;
using integration::WaitUntil;

// Ranks lie on the hosts in turn.
class NetTest : public testing::TestWithParam<int> {
 protected:
  void Make(int hosts) {
    network_ = std::make_unique<Network>(hosts);
    if (!network_->missing().empty()) GTEST_SKIP() << network_->missing();
  }
  void Run(int ranks, const integration::Body& body, const TeamOptions& options = {}) {
    RunProcesses(
        ranks,
        [&](Team& team) {
          network_->Enter(HostOf(team.rank()));
          body(team);
        },
        options);
  }
  int HostOf(int rank) const { return rank % network_->hosts(); }

  std::unique_ptr<Network> network_;

 private:
  // Where silence is not what is tested, a machine that is busy with other things must not pass for a host that is
  // gone.
  const Environment patience_{"STARLING_COMM_SILENCE_MS", "10000"};
};

#define MAKE_NETWORK(hosts) \
  Make(hosts);              \
  if (IsSkipped()) return

bool LastErrorHas(const std::string& text) {
  return std::string(ncclGetLastError(nullptr)).find(text) != std::string::npos;
}

// What every rank has reaches every other one.
void ExpectRightResults(ncclComm_t comm, const Team& team) {
  const int mine = team.rank() + 1;
  int sum = 0;
  NCCL_OK(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
  EXPECT_EQ(sum, team.size() * (team.size() + 1) / 2);
  std::vector<int> all(static_cast<size_t>(team.size()));
  NCCL_OK(ncclAllGather(&mine, all.data(), 1, ncclInt32, comm, nullptr));
  std::vector<int> wanted(all.size());
  std::iota(wanted.begin(), wanted.end(), 1);
  EXPECT_EQ(all, wanted);
}

// Every rank agrees with every other one: set-up, results, two splits, finalize.
void Meet(Team& team, int hosts) {
  const ncclComm_t comm = team.MakeComm();
  ASSERT_NE(comm, nullptr);
  int count = 0;
  NCCL_OK(ncclCommCount(comm, &count));
  EXPECT_EQ(count, team.size());
  ExpectRightResults(comm, team);
  ncclComm_t reversed = nullptr;
  NCCL_OK(ncclCommSplit(comm, 0, -team.rank(), &reversed, nullptr));
  int rank = -1;
  NCCL_OK(ncclCommUserRank(reversed, &rank));
  EXPECT_EQ(rank, team.size() - 1 - team.rank());
  // Those of one host share memory, so operations work among them whatever transports there are.
  ncclComm_t local = nullptr;
  NCCL_OK(ncclCommSplit(comm, team.rank() % hosts, team.rank(), &local, nullptr));
  NCCL_OK(ncclCommCount(local, &count));
  int sum = 0;
  const int one = 1;
  NCCL_OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, local, nullptr));
  EXPECT_EQ(sum, count);
  for (const ncclComm_t each : {local, reversed, comm}) {
    NCCL_OK(ncclCommFinalize(each));
    NCCL_OK(ncclCommDestroy(each));
  }
}

class Hosts : public NetTest {};
INSTANTIATE_TEST_SUITE_P(Number, Hosts, testing::Values(2, 4, 7, 8, 20));

TEST_P(Hosts, MeetAndWork) {
  MAKE_NETWORK(GetParam());
  Run(GetParam(), [&](Team& team) { Meet(team, GetParam()); });
}

TEST_F(NetTest, SixtyFourProcessesOfFourHostsMeetAndWork) {
  MAKE_NETWORK(4);
  Run(64, [](Team& team) { Meet(team, 4); });
}

TEST_F(NetTest, HostsMeetOverIpv6WhenTheyAreTold) {
  MAKE_NETWORK(3);
  const Environment family("NCCL_SOCKET_FAMILY", "AF_INET6");
  const Environment interface("NCCL_SOCKET_IFNAME", "=eth0");
  Run(5, [](Team& team) { Meet(team, 3); });
}

TEST_F(NetTest, HostsMeetEncryptedWhenTheyAreTold) {
  MAKE_NETWORK(3);
  const Environment tls("STARLING_COMM_TLS", "true");
  Run(7, [](Team& team) { Meet(team, 3); });
}

TEST_F(NetTest, RanksSayWhichInterfacesThereAreWhenNoneFits) {
  MAKE_NETWORK(2);
  Run(2, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    if (team.rank() == 0) return;
    setenv("NCCL_SOCKET_IFNAME", "absent", 1);
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, 1), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("absent")) << ncclGetLastError(nullptr);
    EXPECT_TRUE(LastErrorHas("eth0 10.77.0.2")) << ncclGetLastError(nullptr);
  });
}

// The ids come from different hosts; groups of ranks meet at each, and none knows where the others are.
TEST_F(NetTest, RanksMeetByIdsOfSeveralHosts) {
  MAKE_NETWORK(3);
  Run(7, [](Team& team) {
    std::vector<ncclUniqueId> ids = team.MakeIds(3);
    ncclComm_t comm = nullptr;
    NCCL_OK(ncclCommInitRankScalable(&comm, team.size(), team.rank(), 3, ids.data(), nullptr));
    const int mine = 1 << team.rank();
    int sum = 0;
    NCCL_OK(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(sum, (1 << team.size()) - 1);
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Nobody passes an id on: each rank makes it of the variable. The second communicator meets where the first one did.
TEST_F(NetTest, RanksMeetAtTheAddressThatNcclCommIdGives) {
  MAKE_NETWORK(3);
  const Environment address("NCCL_COMM_ID", (std::string(Network::Ip(0)) + ":47110").c_str());
  Run(5, [](Team& team) {
    for (int turn = 0; turn < 3; ++turn) {
      ncclUniqueId id;
      NCCL_OK(ncclGetUniqueId(&id));
      ncclComm_t comm = nullptr;
      NCCL_OK(ncclCommInitRank(&comm, team.size(), id, team.rank()));
      ASSERT_NE(comm, nullptr) << ncclGetLastError(nullptr);
      const int one = 1;
      int sum = 0;
      NCCL_OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
      EXPECT_EQ(sum, team.size());
      NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

TEST_F(NetTest, AWrongNcclCommIdIsNamed) {
  MAKE_NETWORK(2);
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "1000");
  const Environment address("NCCL_COMM_ID", (std::string(Network::Ip(1)) + ":47110").c_str());
  Run(2, [](Team& team) {
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("comm.rendezvous (NCCL_COMM_ID) is 10.77.0.2:47110")) << ncclGetLastError(nullptr);
    EXPECT_TRUE(
        LastErrorHas(team.rank() == 0 ? "this host has no such address" : "rank 0 did not answer there in time"))
        << ncclGetLastError(nullptr);
  });
}

// Sockets need descriptors: a rank that may have no more says so, and what to raise. The others do not hang.
TEST_F(NetTest, ARankWithoutDescriptorsSaysWhatToRaise) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "sanitizers need descriptors themselves";
#endif
  MAKE_NETWORK(2);
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "3000");
  Run(2, [](Team& team) {
    const ncclComm_t before = team.MakeComm();  // all that a process opens once is open
    ASSERT_NE(before, nullptr);
    const ncclUniqueId id = team.MakeId();
    if (team.rank() == 1) {
      const rlimit none{3, 3};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas(team.rank() == 1 ? "ulimit -n" : "rank 1 did not arrive")) << ncclGetLastError(nullptr);
    NCCL_OK(ncclCommAbort(before));
  });
}

// Leaves the namespace two local ports and takes both, until the test ends.
class NoMorePorts {
 public:
  NoMorePorts() {
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "50000 50001";
    for (size_t i = 0; i < taken_.size(); ++i) {
      taken_[i] = sl::Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(50000 + i));
      EXPECT_EQ(bind(taken_[i].get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      EXPECT_EQ(listen(taken_[i].get(), 1), 0);
    }
  }

 private:
  std::array<sl::Fd, 2> taken_;
};

TEST_F(NetTest, ARankWithoutPortsSaysWhatToWiden) {
  MAKE_NETWORK(2);
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "2000");
  Run(2, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    std::optional<NoMorePorts> shortage;
    if (team.rank() == 1) shortage.emplace();
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas(team.rank() == 1 ? "net.ipv4.ip_local_port_range" : "rank 1 did not arrive"))
        << ncclGetLastError(nullptr);
  });
}

// Ranks that have met connect for data at their first operation.
TEST_F(NetTest, ARankThatFindsNoPortForItsDataSaysWhatToWiden) {
  MAKE_NETWORK(2);
  Run(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    std::optional<NoMorePorts> shortage;
    if (team.rank() == 0) shortage.emplace();  // the one that connects
    team.Barrier();
    float value = 1;
    ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
    EXPECT_NE(result, ncclSuccess);
    EXPECT_TRUE(team.rank() != 0 || LastErrorHas("net.ipv4.ip_local_port_range")) << ncclGetLastError(nullptr);
    NCCL_OK(ncclCommAbort(comm));
  });
}

// Waits until the communicator is broken, and returns the words.
std::string Diagnosis(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const bool broken =
      WaitUntil(20, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess; });
  return broken ? ncclGetLastError(comm) : "";
}

TEST_F(NetTest, EverybodyKnowsWhoWasKilled) {
  MAKE_NETWORK(4);
  const TeamOptions options{.may_die = 1u << 5};
  Run(
      8,
      [](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        ASSERT_NE(comm, nullptr);
        team.Barrier();
        if (team.rank() == 5) raise(SIGKILL);
        const std::string words = Diagnosis(comm);
        EXPECT_NE(words.find("rank 5 (process "), std::string::npos) << words;
        EXPECT_NE(words.find("10.77.0.2"), std::string::npos) << words;
        NCCL_OK(ncclCommAbort(comm));
      },
      options);
}

// Nothing ends the connections of a host that is cut off.
TEST_F(NetTest, EverybodyKnowsWhichHostVanished) {
  MAKE_NETWORK(4);
  const Environment silence("STARLING_COMM_SILENCE_MS", "1500");
  Run(8, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    team.Barrier();
    if (team.rank() == 0) network_->SetCable(3, false);
    const std::string words = Diagnosis(comm);
    EXPECT_NE(words.find("does not answer"), std::string::npos) << words;
    if (HostOf(team.rank()) != 3) {
      EXPECT_NE(words.find("10.77.0.4"), std::string::npos) << words;
      EXPECT_TRUE(words.find("rank 3 is on that host") != std::string::npos ||
                  words.find("rank 7 is on that host") != std::string::npos)
          << words;
    }
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(NetTest, ACableThatIsOutForAMomentLosesNobody) {
  MAKE_NETWORK(3);
  Run(6, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    team.Barrier();
    if (team.rank() == 0) {
      network_->SetCable(2, false);
      usleep(700'000);  // the outage itself, well under comm.silence_ms
      network_->SetCable(2, true);
    }
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(NetTest, RanksThatNeverComeAreNamed) {
  MAKE_NETWORK(3);
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "3000");
  Run(3, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    if (team.rank() != 2) {
      EXPECT_NE(ncclCommInitRank(&comm, 3, id, team.rank()), ncclSuccess);
      EXPECT_TRUE(LastErrorHas("rank 2 did not arrive")) << ncclGetLastError(nullptr);
    }
    team.Barrier();
  });
}

TEST_F(NetTest, AHostOutOfReachAtTheStartIsNamed) {
  MAKE_NETWORK(2);
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "2000");
  Run(2, [&](Team& team) {
    const ncclUniqueId id = team.MakeId();
    if (team.rank() == 0) network_->SetCable(0, false);
    team.Barrier();
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas(team.rank() == 0 ? "rank 1 did not arrive" : "10.77.0.1")) << ncclGetLastError(nullptr);
    team.Barrier();
  });
}

// The port of the process that made an id: see docs/control-protocol.md.
uint16_t PortOf(const ncclUniqueId& id) {
  uint16_t port;
  std::memcpy(&port, id.internal + 8 + 42, sizeof port);
  return port;
}

int ConnectTo(const std::string& ip, uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, ip.c_str(), &to.sin_addr);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

// The last rank is none: it calls the rendezvous in every wrong way, before, while and after the others meet.
TEST_F(NetTest, AJobDoesNotNoticeStrangers) {
  MAKE_NETWORK(4);
  Run(4, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    const int ranks = team.size() - 1;
    std::vector<int> held;
    if (team.rank() == ranks) {
      const std::string garbage(4096, 'x');
      for (int i = 0; i < 300; ++i) {
        const int fd = ConnectTo(Network::Ip(0), PortOf(id));
        ASSERT_GE(fd, 0);
        if (i % 3 == 0) send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
        if (i % 3 == 1) send(fd, "SLF", 3, MSG_NOSIGNAL);
        if (i % 5 == 0) {
          close(fd);
        } else {
          held.push_back(fd);
        }
      }
      team.Barrier();
    } else {
      team.Barrier();
      ncclComm_t comm = nullptr;
      NCCL_OK(ncclCommInitRank(&comm, ranks, id, team.rank()));
      NCCL_OK(ncclCommFinalize(comm));
      NCCL_OK(ncclCommDestroy(comm));
    }
    team.Barrier();
    for (const int fd : held) close(fd);
  });
}

}  // namespace
}  // namespace sl::net

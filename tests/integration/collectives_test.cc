// SPDX-License-Identifier: Apache-2.0
//
// Every collective through nccl.h, checked element by element: ranks as processes, as threads of one process, and all
// driven by one thread; on the default stream and on others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/nccl_case.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kReductions[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, kPremulSum};

// The ranks that one thread drives: one of a team, or all of a communicator.
struct Driver {
  int size = 1;
  std::vector<int> ranks;
  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;  // NULL: the default stream
  std::function<bool()> synchronize = [] { return true; };
};

// Runs one case on all ranks of the driver, with its check. "" when it is right; out_hash: of the first rank's result.
std::string RunCase(const Driver& driver, const NcclCase& test, uint64_t* out_hash = nullptr) {
  std::vector<std::unique_ptr<NcclBuffers>> buffers;
  for (int rank : driver.ranks) buffers.push_back(std::make_unique<NcclBuffers>(test, rank, driver.size));
  const bool grouped = driver.ranks.size() > 1;
  ncclResult_t result = grouped ? ncclGroupStart() : ncclSuccess;
  for (size_t i = 0; i < buffers.size() && result == ncclSuccess; ++i) {
    result = buffers[i]->Issue(driver.comms[i], driver.streams[i]);
  }
  if (grouped) result = ncclGroupEnd();
  if (result != ncclSuccess) return test.ToString() + ": " + ncclGetLastError(nullptr);
  if (!driver.synchronize()) return test.ToString() + ": the stream does not become idle";
  for (const auto& one : buffers) {
    if (std::string wrong = one->Check(); !wrong.empty()) return wrong;
  }
  const bool alike = test.kind == Kind::kAllReduce;
  for (const auto& one : buffers) {
    if (alike && one->Hash() != buffers[0]->Hash()) return test.ToString() + ": ranks have other bits";
  }
  if (out_hash != nullptr) *out_hash = buffers[0]->Hash();
  return "";
}

// Every type with every reduction, and every type moved.
void CheckTypes(const Driver& driver) {
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
      for (int reduction : kReductions) {
        const bool in_place = (type + reduction) % 2 != 0;
        const NcclCase test{kind, static_cast<ncclDataType_t>(type), reduction, 67, type % driver.size, in_place, 0};
        ASSERT_EQ(RunCase(driver, test), "");
      }
    }
    for (Kind kind : {Kind::kBroadcast, Kind::kAllGather, Kind::kAllToAll, Kind::kGather, Kind::kScatter}) {
      const NcclCase test{kind, static_cast<ncclDataType_t>(type), ncclSum, 67, type % driver.size, false, 0};
      ASSERT_EQ(RunCase(driver, test), "");
    }
  }
}

// Every collective with every root, both placements, and counts from none to more than any buffer on the way holds.
void CheckCounts(const Driver& driver, const std::vector<size_t>& counts) {
  for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
    for (size_t count : counts) {
      for (int variant = 0; variant < 2 * driver.size; ++variant) {
        const NcclCase test{static_cast<Kind>(kind), ncclFloat32, ncclSum, count, variant / 2, variant % 2 != 0, 1};
        if (!test.has_root() && variant > 1) break;
        if (count > 10000 && variant > 1) break;
        ASSERT_EQ(RunCase(driver, test), "");
      }
    }
  }
}

const std::vector<size_t> kAllCounts = {0, 1, 3, 255, 1000, 30011, 1 << 18};
const std::vector<size_t> kFewCounts = {0, 1, 1000, 70001};

Driver DriverOf(const Team& team, ncclComm_t comm, cudaStream_t stream = nullptr) {
  return {team.size(), {team.rank()}, {comm}, {stream}};
}

// All ranks of a new communicator, driven by this thread.
Driver DriveAll(int size) {
  Driver driver;
  driver.size = size;
  driver.comms.resize(static_cast<size_t>(size));
  driver.streams.assign(static_cast<size_t>(size), nullptr);
  for (int rank = 0; rank < size; ++rank) driver.ranks.push_back(rank);
  EXPECT_EQ(ncclCommInitAll(driver.comms.data(), size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  return driver;
}

void DestroyAll(const Driver& driver) {
  for (ncclComm_t comm : driver.comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
}

TEST(Collectives, AreRightOnProcesses) {
  for (int size = 1; size <= 4; ++size) {
    RunProcesses(size, [](Team& team) {
      const Driver driver = DriverOf(team, team.MakeComm());
      CheckTypes(driver);
      CheckCounts(driver, kAllCounts);
      DestroyAll(driver);
    });
  }
}

TEST(Collectives, AreRightOnThreadsOfOneProcess) {
  for (int size : {2, 3}) {
    RunThreads(size, [](Team& team) {
      const Driver driver = DriverOf(team, team.MakeComm());
      CheckTypes(driver);
      CheckCounts(driver, kFewCounts);
      DestroyAll(driver);
    });
  }
}

TEST(Collectives, AreRightOnOneThreadWithGroups) {
  for (int size : {1, 2, 4}) {
    RunProcesses(1, [size](Team&) {
      const Driver driver = DriveAll(size);
      CheckTypes(driver);
      CheckCounts(driver, kFewCounts);
      DestroyAll(driver);
    });
  }
}

TEST(Collectives, AreRightOnStreams) {
  RunProcesses(3, [](Team& team) {
    HostStream stream;
    Driver driver = DriverOf(team, team.MakeComm(), stream.get());
    driver.synchronize = [&] { return stream.Synchronize(); };
    CheckTypes(driver);
    CheckCounts(driver, kFewCounts);
    DestroyAll(driver);
  });
}

TEST(Collectives, AreRightOnOneThreadWithAStreamForEachRank) {
  RunProcesses(1, [](Team&) {
    Driver driver = DriveAll(3);
    std::vector<std::unique_ptr<HostStream>> streams;
    for (auto& stream : driver.streams) stream = streams.emplace_back(std::make_unique<HostStream>())->get();
    driver.synchronize = [&] {
      return std::all_of(streams.begin(), streams.end(), [](auto& stream) { return stream->Synchronize(); });
    };
    CheckTypes(driver);
    CheckCounts(driver, kFewCounts);
    DestroyAll(driver);
  });
}

// Sums that depend on the order, on several sizes, so on several algorithms.
TEST(Collectives, GiveAllRanksTheSameBitsEveryTime) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (size_t count : {2u, 1000u, 20000u, 300000u}) {
      std::vector<float> send(count), first(count), again(count);
      uint32_t seed = static_cast<uint32_t>(team.rank()) * 977 + 1;
      for (float& value : send) {
        seed = seed * 1664525u + 1013904223u;
        value = std::ldexp(static_cast<float>(seed >> 8), static_cast<int>(seed % 7) - 24);
      }
      NCCL_OK(ncclAllReduce(send.data(), first.data(), count, ncclFloat32, ncclSum, comm, nullptr));
      NCCL_OK(ncclAllReduce(send.data(), again.data(), count, ncclFloat32, ncclSum, comm, nullptr));
      EXPECT_EQ(std::memcmp(first.data(), again.data(), count * sizeof(float)), 0) << count;
      uint64_t hash = 0;
      for (float value : first) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        hash = hash * 1099511628211u + bits;
      }
      team.word(team.rank()).store(hash);
      team.Barrier();
      EXPECT_EQ(team.word(0).load(), hash) << count;
      team.Barrier();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Collectives, OfSeveralCommunicatorsDoNotMix) {
  RunProcesses(3, [](Team& team) {
    std::vector<ncclComm_t> comms;
    for (int i = 0; i < 4; ++i) comms.push_back(team.MakeComm());
    HostStream streams[2];
    std::vector<std::unique_ptr<NcclBuffers>> buffers;
    for (uint32_t round = 0; round < 100; ++round) {
      const NcclCase test{static_cast<Kind>(round % 8), ncclInt32, ncclSum, 1 + round * 31, 1, false, round};
      buffers.push_back(std::make_unique<NcclBuffers>(test, team.rank(), team.size()));
      const cudaStream_t stream = round % 3 == 0 ? nullptr : streams[round % 2].get();
      NCCL_OK(buffers.back()->Issue(comms[round % 4], stream));
    }
    for (HostStream& stream : streams) ASSERT_TRUE(stream.Synchronize());
    for (const auto& one : buffers) ASSERT_EQ(one->Check(), "");
    // Every rank in an order of its own.
    for (size_t i = 0; i < comms.size(); ++i) EXPECT_NE(comms[i], nullptr);
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
  });
}

// All of these meet in one schedule: none may wait for another.
TEST(Collectives, OfOneGroupProgressTogether) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t first = team.MakeComm();
    const ncclComm_t second = team.MakeComm();
    for (uint32_t round = 0; round < 20; ++round) {
      std::vector<std::unique_ptr<NcclBuffers>> buffers;
      NCCL_OK(ncclGroupStart());
      for (uint32_t i = 0; i < 8; ++i) {
        // Ranks name the communicators in different orders; the operations of one keep theirs.
        const bool swap = team.rank() == 1;
        for (int side : {0, 1}) {
          const NcclCase test{static_cast<Kind>(i), ncclFloat64, ncclSum, 1 + round * 97, 2, false, round};
          buffers.push_back(std::make_unique<NcclBuffers>(test, team.rank(), team.size()));
          NCCL_OK(buffers.back()->Issue((side == 0) == swap ? first : second, nullptr));
        }
      }
      NCCL_OK(ncclGroupEnd());
      for (const auto& one : buffers) ASSERT_EQ(one->Check(), "");
    }
    NCCL_OK(ncclCommDestroy(first));
    NCCL_OK(ncclCommDestroy(second));
  });
}

// NCCL_HOSTID makes a host of every rank, and loopback still leads from one to the other.
TEST(Hosts, OfOneMachineMeetOverLoopback) {
  const Environment loopback("NCCL_SOCKET_IFNAME", "=lo");
  RunProcesses(3, [](Team& team) {
    setenv("NCCL_HOSTID", std::to_string(team.rank()).c_str(), 1);
    const ncclComm_t comm = team.MakeComm();
    for (const size_t count : {1, 1000, 1000000}) {
      const NcclCase test{Kind::kAllReduce, ncclFloat32, ncclSum, count, 0, false, 1};
      NcclBuffers buffers(test, team.rank(), team.size());
      NCCL_OK(buffers.Issue(comm, nullptr));
      ASSERT_EQ(buffers.Check(), "");
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

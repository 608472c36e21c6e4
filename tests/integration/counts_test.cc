// SPDX-License-Identifier: Apache-2.0
//
// What a warm operation costs besides its work: no allocation, no lock, no system call, from the program's call through
// the front end, the kernel and the modules. And what a communicator holds before its first operation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/counters.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kWarmCalls = 200;
constexpr int kBlocks = 100;
constexpr int kBlockCalls = 10;

using Call = std::function<ncclResult_t(Team& team, ncclComm_t comm, float* a, float* b)>;

struct Operation {
  const char* name;
  size_t count;
  Call call;
  bool always = true;  // no call asks the operating system for anything; else most do not
};

std::vector<Operation> Operations() {
  std::vector<Operation> all;
  for (size_t count : {size_t{2}, size_t{1000}, size_t{16384}}) {
    all.push_back({"all_reduce", count, [count](Team&, ncclComm_t comm, float* a, float* b) {
                     return ncclAllReduce(a, b, count, ncclFloat32, ncclSum, comm, nullptr);
                   }});
    all.push_back({"all_gather", count, [count](Team& team, ncclComm_t comm, float* a, float* b) {
                     const auto size = static_cast<size_t>(team.size());
                     return ncclAllGather(a, b, count / size, ncclFloat32, comm, nullptr);
                   }});
    all.push_back({"broadcast", count, [count](Team&, ncclComm_t comm, float* a, float* b) {
                     return ncclBroadcast(a, b, count, ncclFloat32, 0, comm, nullptr);
                   }});
  }
  all.push_back({"send, recv", 2,
                 [](Team& team, ncclComm_t comm, float* a, float*) {
                   if (team.size() == 1) return ncclSuccess;
                   return team.rank() == 0 ? ncclSend(a, 2, ncclFloat32, 1, comm, nullptr)
                                           : ncclRecv(a, 2, ncclFloat32, 0, comm, nullptr);
                 },
                 // A rank that waits on a link looks now and then whether somebody wants to connect.
                 false});
  all.push_back({"grouped send and recv", 2,
                 [](Team& team, ncclComm_t comm, float* a, float* b) {
                   const int next = (team.rank() + 1) % team.size();
                   const int previous = (team.rank() + team.size() - 1) % team.size();
                   ncclGroupStart();
                   ncclSend(a, 2, ncclFloat32, next, comm, nullptr);
                   ncclRecv(b, 2, ncclFloat32, previous, comm, nullptr);
                   return ncclGroupEnd();
                 },
                 false});
  return all;
}

// Who has waited this long looks for the reason, under locks.
constexpr double kLookSeconds = 0.01;

struct Measured {
  Counts counts;
  int late = 0;   // calls that are not counted, as they waited so long for a rank that did not run
  int quiet = 0;  // blocks in which this rank took nothing at all, not even to wait
};

Measured CountCalls(Team& team, const Operation& operation, ncclComm_t comm) {
  std::vector<float> a(operation.count, 1), b(operation.count);
  const auto call = [&] { return operation.call(team, comm, a.data(), b.data()); };
  for (int i = 0; i < kWarmCalls; ++i) EXPECT_EQ(call(), ncclSuccess) << ncclGetLastError(nullptr);
  Measured measured;
  for (int block = 0; block < kBlocks; ++block) {
    Counts taken;
    for (int i = 0; i < kBlockCalls; ++i) {
      Counts counts;
      const double begin = Seconds();
      Begin();
      const ncclResult_t result = call();
      End(&counts);
      EXPECT_EQ(result, ncclSuccess);
      const bool late = Seconds() - begin >= kLookSeconds;
      measured.late += late;
      if (!late) taken.Add(counts);
    }
    measured.quiet += taken.Total() == 0;
    measured.counts.Add(taken);
  }
  return measured;
}

// A rank yields and sleeps while the others do not run, so with several ranks waits are printed, not judged.
void ExpectNothing(Team& team) {
  CatchSystemCalls();
  const ncclComm_t comm = team.MakeComm();
  for (const Operation& operation : Operations()) {
    SCOPED_TRACE(operation.name + std::string(" of ") + std::to_string(operation.count));
    const auto [counts, late, quiet] = CountCalls(team, operation, comm);
    std::printf(
        "rank %d of %d, %d x %s of %zu float32: %d allocations, %d locks, %d system calls, %d waits; %d late; %d %% "
        "took nothing\n",
        team.rank(), team.size(), kBlocks * kBlockCalls, operation.name, operation.count, counts.allocations,
        counts.locks, counts.calls, counts.waits, late, quiet * 100 / kBlocks);
    if (!operation.always) {
      EXPECT_LT(counts.allocations, kBlocks);  // fewer than one in ten calls
      continue;
    }
    EXPECT_EQ(counts.allocations, 0);
    EXPECT_EQ(counts.locks, 0);
    EXPECT_EQ(counts.calls, 0) << "system call " << counts.first_number;
    EXPECT_TRUE(team.size() > 1 || quiet == kBlocks);
  }
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// That the counters see what modules do.
TEST(WarmOperation, IsMeasuredByCountersThatCount) {
  RunProcesses(1, [](Team& team) {
    const bool catches = CatchSystemCalls();
    Counts counts;
    Begin();
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitAll(&comm, 1, nullptr);
    End(&counts);
    EXPECT_EQ(made, ncclSuccess);
    EXPECT_GT(counts.allocations, 10);
    EXPECT_GT(counts.locks, 10);
    EXPECT_EQ(counts.calls + counts.waits, catches ? 1 : 0);
    HostStream stream;
    float values[2] = {1, 2};
    Counts on_stream;
    Begin();
    ncclGroupStart();
    for (float& value : values) ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream.get());
    const ncclResult_t result = ncclGroupEnd();
    End(&on_stream);
    EXPECT_EQ(result, ncclSuccess);
    EXPECT_GT(on_stream.locks, 0);  // of device-host, whose thread takes the group
    EXPECT_TRUE(stream.Synchronize());
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(WarmOperation, OfOneRankTakesNothing) { RunProcesses(1, ExpectNothing); }

TEST(WarmOperation, OfTwoThreadsTakesNothing) { RunThreads(2, ExpectNothing); }

TEST(WarmOperation, OfTwoProcessesTakesNothing) { RunProcesses(2, ExpectNothing); }

// Anonymous and shared pages of this process, in bytes.
uint64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  uint64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("RssShmem:", 0) == 0) {
      kib += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
    }
  }
  return kib * 1024;
}

TEST(Communicator, HoldsLittleBeforeItsFirstOperation) {
  static constexpr uint64_t kLimit = 1 << 20;
  RunProcesses(8, [](Team& team) {
    // Modules, threads and arenas are the process's; made by a first communicator.
    ncclComm_t first = nullptr;
    NCCL_OK(ncclCommInitAll(&first, 1, nullptr));
    ncclUniqueId id = team.MakeId();
    sl_comm_config_t config{};
    config.struct_size = sizeof(config);
    config.ids = reinterpret_cast<const sl_unique_id_t*>(&id);
    config.id_count = 1;
    config.rank = static_cast<uint32_t>(team.rank());
    config.size = static_cast<uint32_t>(team.size());
    config.device_kind = -1;
    config.device_ordinal = -1;
    team.Barrier();
    const uint64_t before = ResidentBytes();
    sl_comm_t* comm = nullptr;
    ASSERT_EQ(Runtime()->comm_create(&config, &comm), SL_OK) << Runtime()->last_error();
    const uint64_t resident = ResidentBytes() - before;
    sl_comm_info_t info{};
    info.struct_size = sizeof(info);
    ASSERT_EQ(Runtime()->comm_info(comm, &info), SL_OK);
    std::printf("rank %d of 8: %llu bytes private, %llu shared, resident pages grew by %llu bytes\n", team.rank(),
                static_cast<unsigned long long>(info.host_bytes), static_cast<unsigned long long>(info.shared_bytes),
                static_cast<unsigned long long>(resident));
    EXPECT_LE(info.host_bytes + info.shared_bytes, kLimit);
    EXPECT_LE(resident, kLimit);
    team.Barrier();
    ASSERT_EQ(Runtime()->comm_destroy(comm), SL_OK);
    NCCL_OK(ncclCommDestroy(first));
  });
}

}  // namespace
}  // namespace sl::integration

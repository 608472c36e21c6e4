// SPDX-License-Identifier: Apache-2.0
//
// How communicators begin and end through nccl.h on the real kernel: one thread with several ranks, threads, aborts
// from other threads, work outstanding, fork, and what is left afterwards.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"
#include "sl_runtime.h"

#define NCCL_GOOD(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

namespace {

using Clock = std::chrono::steady_clock;

// Far above what an abort takes, so that a busy machine passes, and far below the time limits of operations.
constexpr double kAbortSeconds = 5;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<ncclComm_t> MakeComms(int size) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(size));
  EXPECT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  return comms;
}

// One all-reduce of all ranks of this thread; returns the sum.
float SumOfOnes(const std::vector<ncclComm_t>& comms) {
  std::vector<float> values(comms.size(), 1.0f);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (size_t i = 0; i < comms.size(); ++i) {
    EXPECT_EQ(ncclAllReduce(&values[i], &values[i], 1, ncclFloat, ncclSum, comms[i], nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  return values.back();
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (dir != nullptr && readdir(dir) != nullptr) ++count;
  if (dir != nullptr) closedir(dir);
  return count;
}

TEST(Lifetime, OneThreadDestroysItsRanksInTurn) {
  const std::vector<ncclComm_t> comms = MakeComms(4);
  EXPECT_EQ(SumOfOnes(comms), 4.0f);
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
}

TEST(Lifetime, OneThreadFinalizesItsRanksInTurn) {
  const std::vector<ncclComm_t> each = MakeComms(3);
  EXPECT_EQ(SumOfOnes(each), 3.0f);
  for (ncclComm_t comm : each) {
    NCCL_GOOD(ncclCommFinalize(comm));
    NCCL_GOOD(ncclCommDestroy(comm));
  }
  const std::vector<ncclComm_t> all = MakeComms(3);
  for (ncclComm_t comm : all) NCCL_GOOD(ncclCommFinalize(comm));
  for (ncclComm_t comm : all) NCCL_GOOD(ncclCommDestroy(comm));
}

// As the blocking form: nobody waits for a rank that the same thread has still to call.
TEST(NonBlocking, OneThreadFinalizesItsRanksInTurn) {
  std::vector<ncclComm_t> comms(3);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  NCCL_GOOD(ncclGetUniqueId(&id));
  NCCL_GOOD(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    ncclCommInitRankConfig(&comms[static_cast<size_t>(rank)], 3, id, rank, &config);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  const auto await = [](ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    const Clock::time_point start = Clock::now();
    while (state == ncclInProgress && SecondsSince(start) < 20) {
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    return state;
  };
  for (const ncclComm_t comm : comms) ASSERT_EQ(await(comm), ncclSuccess);
  for (const ncclComm_t comm : comms) {
    EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
    EXPECT_EQ(await(comm), ncclSuccess) << ncclGetLastError(nullptr);
  }
  for (const ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
}

TEST(Lifetime, RanksOfThreadsAreDestroyedByAnother) {
  ncclUniqueId id;
  NCCL_GOOD(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      NCCL_GOOD(ncclCommInitRank(&comms[static_cast<size_t>(rank)], 3, id, rank));
      int64_t value = rank;
      NCCL_GOOD(ncclAllReduce(&value, &value, 1, ncclInt64, ncclSum, comms[static_cast<size_t>(rank)], nullptr));
      EXPECT_EQ(value, 3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
}

TEST(Lifetime, ManyLeaveNoDescriptorBehind) {
  for (ncclComm_t comm : MakeComms(2)) NCCL_GOOD(ncclCommDestroy(comm));
  const int before = OpenDescriptors();
  for (int i = 0; i < 30; ++i) {
    const std::vector<ncclComm_t> comms = MakeComms(2);
    EXPECT_EQ(SumOfOnes(comms), 2.0f);
    for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
  }
  // The thread that serves rendezvous closes its last connection in its own time.
  const Clock::time_point start = Clock::now();
  while (OpenDescriptors() > before && SecondsSince(start) < 5) std::this_thread::yield();
  EXPECT_LE(OpenDescriptors(), before);
}

TEST(Lifetime, DestroyWaitsForWorkOnStreams) {
  const sl_runtime_ops_t* runtime = nullptr;
  ASSERT_EQ(sl_runtime_query(SL_RUNTIME_REVISION, &runtime), SL_OK);
  const std::vector<ncclComm_t> comms = MakeComms(2);
  sl_stream_t* streams[2];
  for (sl_stream_t*& stream : streams) ASSERT_EQ(runtime->stream_create(&stream), SL_OK);
  std::vector<std::vector<float>> values(2, std::vector<float>(1 << 20, 1.0f));
  NCCL_GOOD(ncclGroupStart());
  for (size_t i = 0; i < 2; ++i) {
    NCCL_GOOD(ncclAllReduce(values[i].data(), values[i].data(), values[i].size(), ncclFloat, ncclSum, comms[i],
                            reinterpret_cast<cudaStream_t>(streams[i])));
  }
  NCCL_GOOD(ncclGroupEnd());
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
  for (const std::vector<float>& one : values) EXPECT_EQ(one.back(), 2.0f);
  for (sl_stream_t* stream : streams) EXPECT_EQ(runtime->stream_destroy(stream), SL_OK);
}

TEST(Abort, EndsAnInitThatWaitsForOthers) {
  ncclUniqueId id;
  NCCL_GOOD(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  const Clock::time_point start = Clock::now();
  NCCL_GOOD(ncclCommAbort(comm));
  EXPECT_LT(SecondsSince(start), kAbortSeconds);
}

TEST(Abort, FromAnotherThreadEndsABlockingInit) {
  ncclUniqueId id;
  NCCL_GOOD(ncclGetUniqueId(&id));
  std::atomic<ncclComm_t> seen{nullptr};
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclSuccess;
  std::thread initialising([&] {
    // The handle is there before the wait begins; another thread reads it through a copy.
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
    seen = comm;
    result = ncclGroupEnd();
  });
  while (seen == nullptr) std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  // Until the group has started it, an abort is refused.
  ncclResult_t aborted = ncclInvalidUsage;
  while (aborted == ncclInvalidUsage && SecondsSince(start) < kAbortSeconds) aborted = ncclCommAbort(seen);
  EXPECT_EQ(aborted, ncclSuccess) << ncclGetLastError(nullptr);
  initialising.join();
  EXPECT_LT(SecondsSince(start), kAbortSeconds);
  EXPECT_EQ(result, ncclInvalidUsage);
  EXPECT_EQ(comm, nullptr);
}

TEST(Abort, FromAnotherThreadEndsAnOperation) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  std::atomic<bool> issued{false};
  ncclResult_t result = ncclSuccess;
  std::thread reducing([&] {
    float value = 1;
    issued = true;
    result = ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], nullptr);
  });
  while (!issued) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // either order ends alike; this one is meant
  const Clock::time_point start = Clock::now();
  NCCL_GOOD(ncclCommAbort(comms[0]));
  reducing.join();
  EXPECT_LT(SecondsSince(start), kAbortSeconds);
  EXPECT_NE(result, ncclSuccess);
  // The other rank is not left hanging, whatever it learns.
  ncclCommDestroy(comms[1]);
  EXPECT_LT(SecondsSince(start), kAbortSeconds);
}

// The work that it waits for waits for a rank that does not call.
TEST(Abort, FromAnotherThreadEndsADestroy) {
  const sl_runtime_ops_t* runtime = nullptr;
  ASSERT_EQ(sl_runtime_query(SL_RUNTIME_REVISION, &runtime), SL_OK);
  const std::vector<ncclComm_t> comms = MakeComms(2);
  sl_stream_t* stream = nullptr;
  ASSERT_EQ(runtime->stream_create(&stream), SL_OK);
  float value = 1;
  NCCL_GOOD(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comms[0], reinterpret_cast<cudaStream_t>(stream)));
  std::atomic<bool> is_over{false};
  std::thread destroying([&] {
    ncclGroupStart();
    for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
    ncclGroupEnd();
    is_over = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // either order ends alike; this one is meant
  EXPECT_FALSE(is_over);
  const Clock::time_point start = Clock::now();
  NCCL_GOOD(ncclCommAbort(comms[0]));
  destroying.join();
  EXPECT_LT(SecondsSince(start), kAbortSeconds);
  EXPECT_EQ(ncclCommAbort(comms[0]), ncclInvalidArgument) << "it is gone";
  EXPECT_EQ(runtime->stream_destroy(stream), SL_OK);
}

TEST(Misuse, CallsThatDoNotMatchNameBothSides) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      float values[16] = {};
      EXPECT_EQ(ncclAllReduce(values, values, 10 + rank, ncclFloat, ncclSum, comms[rank], nullptr), ncclInvalidUsage);
      const std::string text = ncclGetLastError(nullptr);
      EXPECT_NE(text.find("10 float32"), std::string::npos) << text;
      EXPECT_NE(text.find("11 float32"), std::string::npos) << text;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommAbort(comm));
}

TEST(Misuse, HandlesAreRefusedAfterTheirEnd) {
  const ncclComm_t comm = MakeComms(1)[0];
  NCCL_GOOD(ncclCommDestroy(comm));
  float value = 1;
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument);
}

TEST(Misuse, RegistrationsAreRefusedAfterTheirEnd) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  float buffer[16];
  void* registered = nullptr;
  NCCL_GOOD(ncclCommRegister(comms[0], buffer, sizeof(buffer), &registered));
  EXPECT_EQ(ncclCommDeregister(comms[1], registered), ncclInvalidUsage) << "it is another communicator's";
  NCCL_GOOD(ncclCommDeregister(comms[0], registered));
  EXPECT_EQ(ncclCommDeregister(comms[0], registered), ncclInvalidUsage);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("is no registration of this communicator, or it was deregistered already"), std::string::npos)
      << text;
  NCCL_GOOD(ncclCommRegister(comms[0], buffer, sizeof(buffer), &registered));
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));  // and what is still registered with it
}

TEST(Misuse, ErrorsNameTheirModuleOnce) {
  void* memory = nullptr;
  EXPECT_NE(ncclMemAlloc(&memory, size_t{1} << 60), ncclSuccess);
  EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("ncclMemAlloc: device-host: 1152921504606846976 bytes"), 0u)
      << ncclGetLastError(nullptr);
}

TEST(Group, SimulationEstimates) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  float values[2] = {1, 1};
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  NCCL_GOOD(ncclGroupStart());
  for (size_t i = 0; i < 2; ++i) {
    NCCL_GOOD(ncclAllReduce(&values[i], &values[i], 1, ncclFloat, ncclSum, comms[i], nullptr));
  }
  NCCL_GOOD(ncclGroupSimulateEnd(&info));
  EXPECT_GT(info.estimatedTime, 0);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(SumOfOnes(comms), 2.0f);
  for (ncclComm_t comm : comms) NCCL_GOOD(ncclCommDestroy(comm));
}

TEST(Fork, ChildGetsClearErrors) {
  const ncclComm_t comm = MakeComms(1)[0];
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    float value = 1;
    ncclUniqueId id;
    bool clear = ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidUsage;
    clear = clear && std::string(ncclGetLastError(nullptr)).find("fork") != std::string::npos;
    clear = clear && ncclGetUniqueId(&id) == ncclInvalidUsage;
    clear = clear && std::string(ncclGetLastError(nullptr)).find("fork") != std::string::npos;
    _exit(clear ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  NCCL_GOOD(ncclCommDestroy(comm));
}

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Communicators on a device whose launches nobody watches, over the fake CUDA driver: what waits is named and ended
// without anybody asking; graphs hold the memory; GPUs that are missing, hidden or full are told of.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

// Descriptors of memory, which the fake driver keeps as long as it keeps the memory.
int MemoryDescriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:") != std::string::npos ? 1 : 0;
  }
  return count;
}

ncclResult_t Add(ncclComm_t comm, int* values, size_t count, ncclRedOp_t op = ncclSum) {
  return ncclAllReduce(values, values, count, ncclInt32, op, comm, nullptr);
}

TEST_F(Unwatched, LaunchesComputeAndEnd) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    for (int call = 0; call < 50; ++call) {
      int values[] = {team.rank(), call};
      NCCL_OK(Add(comm, values, 2));
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(values[0], 3);
      EXPECT_EQ(values[1], 3 * call);
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// What a rank sends itself is moved by the launch that moves the rest, or copied where there is no rest.
TEST_F(Unwatched, GroupIsOneLaunchWithWhatStays) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const auto exchange = [&](int first, int end) {
      int sent[] = {0, 0, 0};
      int received[] = {-1, -1, -1};
      NCCL_OK(ncclGroupStart());
      for (int peer = first; peer < end; ++peer) {
        sent[peer] = 10 * team.rank() + peer;
        NCCL_OK(ncclSend(&sent[peer], 1, ncclInt32, peer, comm, nullptr));
        NCCL_OK(ncclRecv(&received[peer], 1, ncclInt32, peer, comm, nullptr));
      }
      NCCL_OK(ncclGroupEnd());
      ASSERT_TRUE(gpu.Synchronize(30));
      for (int peer = first; peer < end; ++peer) EXPECT_EQ(received[peer], 10 * peer + team.rank());
      team.Barrier();
    };
    exchange(0, 3);  // first uses are behind
    const uint64_t launches = gpu.Calls("cuLaunchKernelEx");
    const uint64_t copies = gpu.Calls("cuMemcpyAsync");
    exchange(0, 3);
    EXPECT_EQ(gpu.Calls("cuLaunchKernelEx"), launches + 1);
    EXPECT_EQ(gpu.Calls("cuMemcpyAsync"), copies);
    exchange(team.rank(), team.rank() + 1);
    EXPECT_EQ(gpu.Calls("cuLaunchKernelEx"), launches + 1);
    EXPECT_EQ(gpu.Calls("cuMemcpyAsync"), copies + 1);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Where operations pass the host, plans are chosen when they are issued; a group may hold more calls than the log does.
TEST_F(Unwatched, RelayedRanksThatChoseDifferentAlgorithmsAreTold) {
  const std::string folders = std::string(std::getenv("STARLING_MODULE_PATH")) + ":" + SL_HOSTILE_DIR + "/uneven";
  const Environment modules("STARLING_MODULE_PATH", folders.c_str());
  const Environment apart("STARLING_COMM_DIRECT_RANKS", "1");
  const Environment by_plans("STARLING_COMM_HOST_HEAP", "false");
  for (const int calls : {1, 100}) {
    RunProcesses(2, [calls](Team& team) {
      const FakeGpu gpu;
      const ncclComm_t comm = team.MakeComm();
      std::vector<int> values(static_cast<size_t>(calls));
      NCCL_OK(ncclGroupStart());
      for (int& value : values) NCCL_OK(Add(comm, &value, 1));
      NCCL_OK(ncclGroupEnd());
      const auto is_told = [&] { return gpu.IsIdle() && AsyncError(comm) != ncclSuccess; };
      if (team.rank() == 1) {
        EXPECT_TRUE(WaitUntil(30, is_told));
        const std::string text = ncclGetLastError(comm);
        EXPECT_NE(text.find("two ranks have chosen different algorithms"), std::string::npos) << text;
        EXPECT_NE(text.find(" hostile; one of them estimates differently"), std::string::npos) << text;
      }
      team.Barrier();
      NCCL_OK(ncclCommAbort(comm));
    });
  }
}

TEST_F(Unwatched, LaunchThatWaitsTooLongEndsAndNamesWhoHasNotCalled) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "2000");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    NCCL_OK(Add(comm, &value, 1));
    ASSERT_TRUE(gpu.Synchronize(30));
    if (team.rank() == 0) {
      NCCL_OK(Add(comm, &value, 1));
      ASSERT_TRUE(gpu.Synchronize(30)) << "it is ended without being asked";
      ASSERT_TRUE(WaitUntil(10, [&] { return AsyncError(comm) == ncclRemoteError; }));
      EXPECT_TRUE(LastErrorHas("timeout after 2000 ms: a launch waits for rank 1 (process "));
      EXPECT_TRUE(LastErrorHas("step 7, seen 1, wanted 2; rank 1 (process "));
      EXPECT_TRUE(LastErrorHas("has not called #2 ("));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

// Every launch tells of its wait in the same words, as blocks do that serve a launch now and then and count for
// themselves. The other rank is late a hundred times, together for longer than the limit, and never for nearly as long.
TEST_F(Unwatched, LaunchesThatWaitShortlyOneAfterTheOtherReachNoLimit) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1200");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    for (int call = 0; call < 100; ++call) {
      if (team.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      NCCL_OK(Add(comm, &value, 1, ncclMax));
      ASSERT_TRUE(gpu.Synchronize(30));
      ASSERT_EQ(AsyncError(comm), ncclSuccess) << call << ": " << ncclGetLastError(comm);
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// As expandable segments of PyTorch are; their descriptors pass the sockets of the ranks.
TEST_F(Unwatched, BuffersOverSeveralMappingsAreReachedByTheirDescriptors) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    constexpr uint64_t kPieces = 4;
    constexpr int kValues = 2 * FakeGpu::kPiece / sizeof(int);  // in three mappings
    const cu::Address memory = gpu.Reserve(kPieces);
    for (uint64_t i = 0; i < kPieces; ++i) gpu.Map(memory + i * FakeGpu::kPiece, cu::kHandlePosixFd);
    int* const values = reinterpret_cast<int*>(memory + FakeGpu::kPiece / 2);
    std::vector<int> sums(kValues);
    const auto sum = [&](int salt) {
      for (int i = 0; i < kValues; ++i) values[i] = i + team.rank() + salt;
      NCCL_OK(ncclAllReduce(values, sums.data(), kValues, ncclInt32, ncclSum, comm, nullptr));
      ASSERT_TRUE(gpu.Synchronize(30));
    };
    for (int round = 0; round < 3; ++round) {
      sum(round);
      for (int i = 0; i < kValues; ++i) ASSERT_EQ(sums[static_cast<size_t>(i)], 3 * (i + round + 1)) << round;
      gpu.Unmap(memory + FakeGpu::kPiece);  // and other memory at the same address
      gpu.Map(memory + FakeGpu::kPiece, cu::kHandlePosixFd);
    }
    gpu.Unmap(memory + FakeGpu::kPiece);
    gpu.Map(memory + FakeGpu::kPiece, team.rank() == 1 ? 0 : cu::kHandlePosixFd);
    sum(0);
    EXPECT_EQ(sums[0], -1) << "no rank reaches what one cannot share";
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(Unwatched, CallsThatDifferAreNamedWhileALaunchWaits) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    NCCL_OK(Add(comm, &value, 1, team.rank() == 0 ? ncclSum : ncclMax));
    ASSERT_TRUE(gpu.Synchronize(30));
    ASSERT_TRUE(WaitUntil(10, [&] { return AsyncError(comm) != ncclSuccess; }));
    EXPECT_TRUE(LastErrorHas("operation #1: "));
    EXPECT_TRUE(LastErrorHas("max"));
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(Unwatched, RevokeEndsALaunchAndLeavesTheRestOfUse) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    if (team.rank() == 0) {
      NCCL_OK(Add(comm, &value, 1));
    }
    NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    EXPECT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(AsyncError(comm), ncclSuccess);
    EXPECT_EQ(Add(comm, &value, 1), ncclInvalidUsage);
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(comm, 0, 0, &child, nullptr));
    value = 1;
    NCCL_OK(Add(child, &value, 1));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(value, 2);
    NCCL_OK(ncclCommDestroy(child));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Of a sum, estimated; the algorithm takes 1 us where it may hold all of its 32 processors.
float Microseconds(ncclComm_t comm) {
  int value = 1;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Add(comm, &value, 1), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << ncclGetLastError(nullptr);
  return info.estimatedTime;
}

ncclComm_t MakeBoundComm(Team& team, int most) {
  const ncclUniqueId id = team.MakeId();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (most != 0) config.maxCTAs = most;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, team.size(), id, team.rank(), &config), ncclSuccess)
      << ncclGetLastError(nullptr);
  return comm;
}

TEST_F(Unwatched, OperationsHoldNoMoreProcessorsThanAnyRankAllows) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t unbound = MakeBoundComm(team, 0);
    EXPECT_EQ(Microseconds(unbound), 1) << "NCCL's default is no bound";
    const ncclComm_t comm = MakeBoundComm(team, team.rank() == 0 ? 8 : 4);
    EXPECT_EQ(Microseconds(comm), 8);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.maxCTAs = 16;
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(comm, 0, 0, &child, &config));
    EXPECT_EQ(Microseconds(child), 2) << "a child has its own";
    ncclComm_t heir = nullptr;
    NCCL_OK(ncclCommSplit(comm, 0, 0, &heir, nullptr));
    EXPECT_EQ(Microseconds(heir), 8) << "or its parent's";
    for (ncclComm_t one : {heir, child, comm, unbound}) NCCL_OK(ncclCommDestroy(one));
  });
}

// What waits for peers must be on the GPU all at once.
TEST_F(Unwatched, OperationsHoldNoMoreProcessorsThanTheGpuHas) {
  const Environment small("SL_FAKE_CUDA_SMS", "4");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    for (const int most : {0, 16}) {
      const ncclComm_t comm = MakeBoundComm(team, most);
      EXPECT_EQ(Microseconds(comm), 8) << "asked for " << most;
      NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

TEST_F(Unwatched, ProfileBoundsWhatAProgramAsksFor) {
  const Environment budget("STARLING_COMM_SM_BUDGET", "4");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    for (const auto& [most, microseconds] : {std::pair(0, 8), std::pair(16, 8), std::pair(2, 16)}) {
      const ncclComm_t comm = MakeBoundComm(team, most);
      EXPECT_EQ(Microseconds(comm), static_cast<float>(microseconds)) << "asked for " << most;
      NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

// The communicator came before the program's first use of a GPU, and so lies in host memory.
TEST_F(Unwatched, LateUseIsToldAndItsStreamsAreRefused) {
  const Environment log("STARLING_LOG", "info");
  const Environment device("STARLING_ROLES_DEVICE", "auto");
  RunProcesses(2, [](Team& team) {
    testing::internal::CaptureStderr();
    const ncclComm_t comm = team.MakeComm();
    const ncclComm_t other = team.MakeComm();
    const std::string lines = testing::internal::GetCapturedStderr();
    const size_t told = lines.find("lie in host memory as long as this process uses no device of cuda");
    EXPECT_NE(told, std::string::npos) << lines;
    EXPECT_EQ(lines.find("lie in host memory", told + 1), std::string::npos) << "more than once: " << lines;
    const FakeGpu gpu;
    int value = 1;
    const ncclResult_t result = ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, gpu.MakeStream());
    EXPECT_EQ(result, ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("the process had not used CUDA when it was made"));
    for (ncclComm_t one : {other, comm}) NCCL_OK(ncclCommDestroy(one));
  });
}

TEST_F(Unwatched, SuspendFreesDeviceMemory) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    for (int round = 0; round < 3; ++round) {
      uint64_t bytes = 0;
      NCCL_OK(ncclCommMemStats(comm, ncclStatGpuMemSuspend, &bytes));
      EXPECT_GT(bytes, 0u);
      NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
      NCCL_OK(ncclCommResume(comm));
      int value = team.rank();
      NCCL_OK(Add(comm, &value, 1));
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(value, 1);
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// The driver makes unmapping wait for all work. Who asks about the communicator meanwhile does not wait with it.
TEST_F(Unwatched, SuspendKeepsNobodyWaitingWhoAsks) {
  const Environment as_on_gpus("SL_FAKE_CUDA_FREE_WAITS", "1");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const uint64_t waits = gpu.Calls("AwaitStreams");
    const FakeGpu::Gate gate(gpu);
    auto suspended = std::async(std::launch::async, [comm] { return ncclCommSuspend(comm, NCCL_SUSPEND_MEM); });
    EXPECT_TRUE(WaitUntil(30, [&] { return gpu.Calls("AwaitStreams") != waits; })) << "nothing is unmapped";
    auto asked = std::async(std::launch::async, [comm] {
      uint64_t bytes = 0;
      return ncclCommMemStats(comm, ncclStatGpuMemSuspend, &bytes);
    });
    EXPECT_EQ(asked.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "it waits for the driver";
    gate.Open();
    EXPECT_EQ(suspended.get(), ncclSuccess);
    EXPECT_EQ(asked.get(), ncclSuccess);
    NCCL_OK(ncclCommResume(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Nor does who aborts it: what the driver makes wait for others is freed when they have ended.
TEST_F(Unwatched, AbortDoesNotWaitForAnUnmappingThatWaitsForOthers) {
  const Environment as_on_gpus("SL_FAKE_CUDA_FREE_WAITS", "1");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const int before = MemoryDescriptors();
    const ncclUniqueId id = team.MakeId();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    ncclCommInitRankConfig(&comm, 2, id, team.rank(), &config);
    ASSERT_TRUE(WaitUntil(30, [&] { return AsyncError(comm) == ncclSuccess; }));
    const uint64_t waits = gpu.Calls("AwaitStreams");
    const FakeGpu::Gate gate(gpu);
    EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInProgress);
    EXPECT_TRUE(WaitUntil(30, [&] { return gpu.Calls("AwaitStreams") != waits; })) << "nothing is unmapped";
    auto aborted = std::async(std::launch::async, [comm] { return ncclCommAbort(comm); });
    EXPECT_EQ(aborted.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "it waits for the driver";
    gate.Open();
    EXPECT_EQ(aborted.get(), ncclSuccess);
    EXPECT_TRUE(WaitUntil(10, [&] { return gpu.IsIdle() && MemoryDescriptors() == before; })) << "it is not freed";
    team.Barrier();
  });
}

TEST_F(Unwatched, CapturedGraphsHoldTheMemoryUntilTheyAreGone) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const int before = MemoryDescriptors();
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    gpu.BeginCapture();
    NCCL_OK(Add(comm, &value, 1));
    NCCL_OK(Add(comm, &value, 1));
    void* graph = gpu.EndCapture();
    EXPECT_EQ(value, 1) << "captured, not run";
    gpu.Launch(graph);
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(value, 4);
    EXPECT_EQ(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("has 1 captured graph whose operations use the memory"));
    team.Barrier();
    NCCL_OK(ncclCommDestroy(comm));
    EXPECT_GT(MemoryDescriptors(), before) << "the graph could still be launched";
    gpu.DestroyGraph(graph);
    EXPECT_TRUE(WaitUntil(10, [&] { return MemoryDescriptors() == before; })) << "freed with the graph";
    team.Barrier();
  });
}

// The program uses the word for another communicator once it has destroyed this one.
TEST_F(Unwatched, CallMarkIsNotLookedAtOnceAProgramHasDestroyedTheCommunicator) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const int before = MemoryDescriptors();
    const ncclUniqueId made = team.MakeId();
    sl_unique_id_t id;
    std::memcpy(&id, &made, sizeof(id));
    uint32_t mark = 0;
    sl_comm_config_t config{};
    config.struct_size = sizeof(config);
    config.ids = &id;
    config.id_count = 1;
    config.rank = static_cast<uint32_t>(team.rank());
    config.size = 2;
    config.device_kind = config.device_ordinal = -1;
    config.call_mark = &mark;
    sl_comm_t* comm = nullptr;
    ASSERT_EQ(Runtime()->comm_create(&config, &comm), SL_OK) << Runtime()->last_error();
    int value = 1;
    sl_op_t op{};
    op.struct_size = sizeof(op);
    op.kind = SL_OP_ALL_REDUCE;
    op.datatype = SL_INT32;
    op.reduction = SL_SUM;
    op.root = op.peer = -1;
    op.count = 1;
    op.send = op.recv = &value;
    gpu.BeginCapture();
    mark = 1;
    EXPECT_EQ(Runtime()->enqueue(comm, &op, nullptr), SL_OK) << Runtime()->last_error();
    mark = 0;
    void* graph = gpu.EndCapture();
    team.Barrier();
    EXPECT_EQ(Runtime()->comm_destroy(comm), SL_OK) << Runtime()->last_error();
    mark = 1;
    gpu.DestroyGraph(graph);
    EXPECT_TRUE(WaitUntil(10, [&] { return MemoryDescriptors() == before; })) << "the mark is taken to be its own";
    team.Barrier();
  });
}

TEST_F(Unwatched, TooLittleDeviceMemoryIsTold) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclUniqueId id = team.MakeId();
    if (team.rank() == 1) gpu.FailNext("cuMemCreate");
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRank(&comm, 2, id, team.rank());
    EXPECT_EQ(result, team.rank() == 1 ? ncclUnhandledCudaError : ncclRemoteError) << ncclGetLastError(nullptr);
    EXPECT_TRUE(LastErrorHas("cuMemCreate"));
    EXPECT_EQ(comm, nullptr);
  });
}

TEST_F(Unwatched, WithoutAGpuItIsSaid) {
  const Environment none("SL_FAKE_CUDA_DEVICES", "0");
  RunProcesses(1, [](Team&) {
    ncclComm_t comm = nullptr;
    ncclUniqueId id;
    NCCL_OK(ncclGetUniqueId(&id));
    EXPECT_NE(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("roles.device is \"cuda\", but this machine has no such device"));
  });
}

TEST_F(Unwatched, RankWhoseGpuIsHiddenIsNamed) {
  std::ofstream(path_) << "profile_version = 1\n[modules.algo-symmetric]\nenabled = false\n";
  RunProcesses(2, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    if (team.rank() == 1) setenv("SL_FAKE_CUDA_DEVICES", "0", 1);
    if (team.rank() == 0) static const FakeGpu gpu;
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("CUDA_VISIBLE_DEVICES"));
  });
}

}  // namespace
}  // namespace sl::integration

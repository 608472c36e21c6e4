// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs, all-reduces by a reduce-scatter and an all-gather: eager, in graphs and groups, and with copy
// engines for the second half. Part of gpu.calls_test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

using integration::Kind;
using integration::NcclCase;

constexpr size_t kBlockBytes = 64 << 10;  // the least of a rank

uint64_t Launches() { return CallsOf("cuLaunchKernelEx") + CallsOf("cuLaunchKernel"); }

// All-reduces are sequences wherever they can be.
class GpuSequences : public GpuReach {
 protected:
  GpuSequences() {
    std::ofstream(path_) << "profile_version = 1\n[roles]\ndevice = \"cuda\"\n"
                            "[[select]]\nop = \"all_reduce\"\nalgorithm = \"sequence\"\n";
  }
  ~GpuSequences() override { unlink(path_.c_str()); }

 private:
  const std::string path_ = testing::TempDir() + "sequences-" + std::to_string(getpid()) + ".toml";
  const integration::Environment profile_{"STARLING_PROFILE", path_.c_str()};
};

// All but the first leave over what blocks of whole lines do not take.
std::vector<NcclCase> Cases(int ranks) {
  std::vector<NcclCase> cases;
  const auto add = [&](ncclDataType_t type, int reduction, size_t more) {
    for (const bool in_place : {false, true}) {
      NcclCase test;
      test.type = type;
      test.reduction = reduction;
      test.count = static_cast<size_t>(ranks) * kBlockBytes / integration::TypeBytes(type) + more;
      test.in_place = in_place;
      test.salt = static_cast<uint32_t>(cases.size());
      cases.push_back(test);
    }
  };
  add(ncclFloat32, ncclSum, 0);
  add(ncclBfloat16, ncclAvg, 1);
  add(ncclInt8, ncclMax, 1001);
  add(ncclFloat64, integration::kPremulSum, 77);
  return cases;
}

void RunAll(GpuRank& me) {
  for (const NcclCase& test : Cases(me.team.size())) {
    SCOPED_TRACE(test.ToString());
    for (int round = 0; round < 3; ++round) ExpectRight(test, me.team.rank(), me.team.size(), me.comm, me.stream);
    GpuBuffers captured(test, me.team.rank(), me.team.size(), 1);
    BeginCapture(me.stream);
    NCCL_OK(captured.Issue(me.comm, me.stream));
    CudaGraphExec graph = EndCapture(me.stream);
    for (int replay = 0; replay < (test.in_place ? 1 : 3); ++replay) {
      Launch(graph, me.stream);
      ExpectRight(test, me.team.rank(), me.team.size(), me.comm, me.stream);
    }
    EXPECT_EQ(captured.Check(), "");
    DestroyGraph(graph);
  }
  NCCL_OK(ncclCommDestroy(me.comm));
}

TEST_F(GpuSequences, AreRightEagerAndInGraphs) {
  for (int ranks = 2; ranks <= Ranks(); ++ranks) RunGpuRanks(ranks, RunAll);
}

// The driver of device-cuda's tests counts launches: an all-reduce is two, with what blocks leave over three.
TEST_F(GpuSequences, AreOneLaunchForEachPart) {
  RunGpuRanks(2, [](GpuRank& me) {
    NcclCase test;
    test.count = 2 * kBlockBytes / sizeof(float);
    for (const size_t more : {size_t{0}, size_t{1}}) {
      test.count += more;
      ExpectRight(test, me.team.rank(), 2, me.comm, me.stream);
      GpuBuffers buffers(test, me.team.rank(), 2, 0);
      const uint64_t before = Launches();
      NCCL_OK(buffers.Issue(me.comm, me.stream));
      if (before != 0) {
        EXPECT_EQ(Launches() - before, 2 + more);
      }
      ASSERT_TRUE(WaitFor(me.stream, kPatience));
      EXPECT_EQ(buffers.Check(), "");
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(GpuSequences, AreRightInGroupsWithOthers) {
  RunGpuRanks(Ranks(), [](GpuRank& me) {
    const int ranks = me.team.size();
    std::vector<NcclCase> cases = Cases(ranks);
    NcclCase broadcast;
    broadcast.kind = Kind::kBroadcast;
    broadcast.root = ranks - 1;
    broadcast.count = 1000;
    cases.insert(cases.begin() + 2, broadcast);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<GpuBuffers>> buffers;
      for (NcclCase& test : cases) {
        ++test.salt;
        buffers.push_back(std::make_unique<GpuBuffers>(test, me.team.rank(), ranks, 0));
      }
      NCCL_OK(ncclGroupStart());
      for (const auto& one : buffers) NCCL_OK(one->Issue(me.comm, me.stream));
      NCCL_OK(ncclGroupEnd());
      ASSERT_TRUE(WaitFor(me.stream, kPatience));
      for (const auto& one : buffers) EXPECT_EQ(one->Check(), "");
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// Between windows, for who wants no SMs held, the all-gather is copies. In place and not, eager and in a graph.
TEST_F(GpuSequences, GatherByCopiesBetweenWindows) {
  integration::RunProcesses(
      Ranks(),
      [](integration::Team& team) {
        UseMyGpu(team.rank());
        const size_t count = static_cast<size_t>(team.size()) * kBlockBytes / sizeof(int) + 5;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
        ncclComm_t comm = nullptr;
        const ncclUniqueId id = team.MakeId();
        NCCL_OK(ncclCommInitRankConfig(&comm, team.size(), id, team.rank(), &config));
        void* memory = nullptr;
        NCCL_OK(ncclMemAlloc(&memory, 2 * count * sizeof(int)));
        ncclWindow_t window = nullptr;
        NCCL_OK(ncclCommWindowRegister(comm, memory, 2 * count * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
        CudaStream stream = MakeStream();
        auto* send = static_cast<int*>(memory);
        const auto round = [&](int* recv, int salt, const auto& run) {
          std::vector<int> numbers(count);
          for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int>(i) * salt + team.rank();
          ToDevice(send, numbers.data(), count * sizeof(int));
          team.Barrier();
          run();
          ASSERT_TRUE(WaitFor(stream, kPatience));
          FromDevice(numbers.data(), recv, count * sizeof(int));
          const int ranks = team.size();
          size_t wrong = 0;
          for (size_t i = 0; i < count; ++i) {
            wrong += numbers[i] != static_cast<int>(i) * salt * ranks + ranks * (ranks - 1) / 2 ? 1 : 0;
          }
          EXPECT_EQ(wrong, 0u);
          team.Barrier();
        };
        for (int* recv : {send + count, send}) {
          const auto issue = [&] {
            NCCL_OK(ncclAllReduce(send, recv, count, ncclInt32, ncclSum, comm, reinterpret_cast<cudaStream_t>(stream)));
          };
          const uint64_t copies = CallsOf("cuMemcpyAsync");
          round(recv, 3, issue);
          if (Launches() != 0) {
            EXPECT_GE(CallsOf("cuMemcpyAsync") - copies, static_cast<uint64_t>(team.size() - 1));
          }
          BeginCapture(stream);
          issue();
          CudaGraphExec graph = EndCapture(stream);
          for (int salt = 4; salt < 7; ++salt) {
            round(recv, salt, [&] { Launch(graph, stream); });
            round(recv, -salt, issue);
          }
          DestroyGraph(graph);
        }
        NCCL_OK(ncclCommWindowDeregister(comm, window));
        NCCL_OK(ncclCommDestroy(comm));
        NCCL_OK(ncclMemFree(memory));
        DestroyStream(stream);
      },
      Patient());
}

// Peers wait for the parts that are missing: what was begun ends, and the communicator has failed, eager and in a
// group.
TEST_F(GpuSequences, EndWhereAPartCannotBeLaunched) {
  for (const bool in_group : {false, true}) {
    RunGpuRanks(2, [in_group](GpuRank& me) {
      const size_t count = 2 * kBlockBytes / sizeof(float);
      void* memory = Allocate(2 * count * sizeof(float));
      auto* values = static_cast<float*>(memory);
      const auto stream = reinterpret_cast<cudaStream_t>(me.stream);
      if (me.team.rank() == 1 && FailCall("cuLaunchKernelEx", 1)) {
        if (in_group) {
          NCCL_OK(ncclGroupStart());
          NCCL_OK(ncclAllReduce(values, values + count, count, ncclFloat, ncclSum, me.comm, stream));
          NCCL_OK(ncclAllReduce(values, values + count, count, ncclFloat, ncclSum, me.comm, stream));
          EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
        } else {
          EXPECT_EQ(ncclAllReduce(values, values + count, count, ncclFloat, ncclSum, me.comm, stream),
                    ncclUnhandledCudaError);
        }
        EXPECT_TRUE(WaitFor(me.stream, kPatience)) << "what was begun waits on";
        ncclResult_t state = ncclSuccess;
        NCCL_OK(ncclCommGetAsyncError(me.comm, &state));
        EXPECT_EQ(state, ncclUnhandledCudaError);
      }
      me.team.Barrier();
      NCCL_OK(ncclCommAbort(me.comm));
      Free(memory);
    });
  }
}

TEST_F(GpuSequences, AbortEndsWhatWaitsForARankThatNeverCalls) {
  RunGpuRanks(2, [](GpuRank& me) {
    const size_t count = 2 * kBlockBytes / sizeof(float);
    void* memory = Allocate(2 * count * sizeof(float));
    if (me.team.rank() == 0) {
      auto* values = static_cast<float*>(memory);
      for (int i = 0; i < 5; ++i) {
        NCCL_OK(ncclAllReduce(values, values + count, count, ncclFloat32, ncclSum, me.comm,
                              reinterpret_cast<cudaStream_t>(me.stream)));
      }
      ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
      NCCL_OK(ncclCommAbort(me.comm));
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "the stream waits on";
    }
    me.team.Barrier();
    if (me.team.rank() == 1) {
      NCCL_OK(ncclCommAbort(me.comm));
    }
    Free(memory);
  });
}

}  // namespace
}  // namespace sl::gpu

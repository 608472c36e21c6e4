// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs, what the end of a communicator leaves to others: kernels of another communicator, for which
// nobody waits, and memory that ranks of one process reach where it lies. Part of gpu.calls_test.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

using integration::NcclCase;
using integration::Team;

constexpr double kBound = 1.5;

cudaStream_t Native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }

double SecondsOf(const std::function<void()>& call) {
  const double begin = integration::Seconds();
  call();
  return integration::Seconds() - begin;
}

// Of tests that stand still where they fail.
integration::TeamOptions Brief() {
  integration::TeamOptions options;
  options.seconds = 60 * integration::kSlowdown;
  return options;
}

void Abort(ncclComm_t comm) {
  const double seconds = SecondsOf([comm] { NCCL_OK(ncclCommAbort(comm)); });
  EXPECT_LT(seconds, kBound) << "abort is bounded";
}

// The driver makes freeing wait for all kernels; those of the other communicator wait for a rank that never calls.
TEST_F(GpuReach, AbortsOneCommunicatorAfterTheOther) {
  const auto run = [](GpuRank& me) {
    const size_t before = FreeMemory();
    ncclComm_t other = me.team.MakeComm();
    if (me.team.rank() == 0) {
      NcclCase test;
      test.count = 1000;
      GpuBuffers buffers(test, 0, 2, 0);
      GpuBuffers others(test, 0, 2, 0);
      const CudaStream stream = MakeStream();
      NCCL_OK(buffers.Issue(me.comm, me.stream));
      NCCL_OK(others.Issue(other, stream));
      ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
      Abort(me.comm);
      EXPECT_TRUE(WaitFor(me.stream, 1)) << "a kernel spins on";
      EXPECT_FALSE(WaitFor(stream, 0)) << "that of the other communicator has ended: the test proves nothing";
      Abort(other);
      EXPECT_TRUE(WaitFor(stream, 1)) << "a kernel spins on";
    }
    me.team.Barrier();
    if (me.team.rank() == 1) {
      Abort(me.comm);
      Abort(other);
    }
    me.team.Barrier();
    EXPECT_TRUE(integration::WaitUntil(10, [&] { return FreeMemory() > before; })) << "their memory is not freed";
    me.team.Barrier();
  };
  RunGpuRanks(2, run, Brief());
}

TEST_F(GpuReach, DestroysOneCommunicatorBesideKernelsOfAnother) {
  const auto run = [](GpuRank& me) {
    const size_t before = FreeMemory();
    ncclComm_t other = me.team.MakeComm();
    NcclCase test;
    test.count = 1000;
    ExpectRight(test, me.team.rank(), 2, me.comm, me.stream);
    GpuBuffers buffers(test, me.team.rank(), 2, 0);
    if (me.team.rank() == 0) {
      NCCL_OK(buffers.Issue(other, me.stream));
      ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
    }
    me.team.Barrier();
    const double seconds = SecondsOf([&] { NCCL_OK(ncclCommDestroy(me.comm)); });
    EXPECT_LT(seconds, kBound) << "destroy waits for kernels of another communicator";
    me.team.Barrier();
    if (me.team.rank() == 0) {
      EXPECT_FALSE(WaitFor(me.stream, 0)) << "the kernel has ended: the test proves nothing";
    }
    Abort(other);
    me.team.Barrier();
    EXPECT_TRUE(integration::WaitUntil(10, [&] { return FreeMemory() > before; })) << "their memory is not freed";
    me.team.Barrier();
  };
  RunGpuRanks(2, run, Brief());
}

// Two ranks of one process. What rank 1 issues is held back on its stream; rank 0 aborts what has met nobody, and uses
// its memory for something else. Then rank 1's runs: all that it waits for is there.
class LateLaunch {
 public:
  enum class Call { kAllReduce, kSend };

  LateLaunch(Team& team, Call call) : team_(team), call_(call) {
    UseMyGpu(team.rank());
    comm_ = team.MakeComm();
    stream_ = MakeStream();
  }

  // `reuse` gives the memory back and returns what the program has got at the same place. Rank 0 calls it.
  void Run(uint32_t* send, uint32_t* recv, size_t count, const std::function<uint32_t*()>& reuse) {
    const bool is_late = team_.rank() == 1;
    NCCL_OK(Issue(send, recv, count));
    ASSERT_TRUE(WaitFor(stream_, kPatience));  // all buffers are known to all
    team_.Barrier();
    uint64_t* word = is_late ? HoldStream(stream_) : nullptr;
    NCCL_OK(Issue(send, recv, count));
    team_.Barrier();
    // Rank 1's computing is over when rank 0 has its memory back, and after 2 s at the latest: freeing may wait for it.
    std::atomic<bool> is_reused{!is_late};
    std::jthread computing([&] {
      integration::WaitUntil(2, [&] { return is_reused.load(); });
      if (is_late) LetStream(word);
    });
    const std::vector<uint32_t> pattern(count, 0x5a5a5a5a);
    uint32_t* own = nullptr;
    if (!is_late) {
      ASSERT_FALSE(WaitFor(stream_, 0.2)) << "it waits for nobody";
      Abort(comm_);
      ASSERT_TRUE(WaitFor(stream_, 1)) << "the kernel spins on";
      own = reuse();
      ToDevice(own, pattern.data(), count * sizeof(uint32_t));
    }
    team_.Barrier();
    is_reused = true;
    computing.join();
    if (is_late) {
      EXPECT_TRUE(WaitFor(stream_, 5)) << "the late kernel spins on";
      ncclResult_t state = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(comm_, &state));
      EXPECT_EQ(state, ncclRemoteError);
      const std::string text = ncclGetLastError(comm_);
      EXPECT_NE(text.find("aborted the communicator"), std::string::npos) << text;
      Abort(comm_);
    }
    team_.Barrier();
    if (is_late) return;
    std::vector<uint32_t> seen(count);
    FromDevice(seen.data(), own, count * sizeof(uint32_t));
    EXPECT_TRUE(seen == pattern) << "a late kernel wrote into memory that was the rank's own again";
  }

 private:
  ncclResult_t Issue(const uint32_t* send, uint32_t* recv, size_t count) const {
    if (call_ == Call::kAllReduce) return ncclAllReduce(send, recv, count, ncclUint32, ncclSum, comm_, Native(stream_));
    return team_.rank() == 1 ? ncclSend(send, count, ncclUint32, 0, comm_, Native(stream_))
                             : ncclRecv(recv, count, ncclUint32, 1, comm_, Native(stream_));
  }

  Team& team_;
  const Call call_;
  ncclComm_t comm_ = nullptr;
  CudaStream stream_ = nullptr;
};

void ExpectMemoryLeftAlone(LateLaunch::Call call) {
  const integration::Environment direct("STARLING_ALGO_SYMMETRIC_GPU_FAMILY", "direct");
  const auto run = [call](Team& team) {
    constexpr size_t kCount = size_t{1} << 20;
    LateLaunch late(team, call);
    auto* send = static_cast<uint32_t*>(Allocate(kCount * sizeof(uint32_t)));
    auto* recv = static_cast<uint32_t*>(Allocate(kCount * sizeof(uint32_t)));
    late.Run(send, recv, kCount, [&] {
      Free(recv);
      Free(send);  // the arena is empty, and begins anew
      static_cast<void>(Allocate(kCount * sizeof(uint32_t)));
      void* again = Allocate(kCount * sizeof(uint32_t));
      EXPECT_EQ(again, recv);
      return static_cast<uint32_t*>(again);
    });
  };
  integration::RunThreads(2, run, Patient());
}

TEST_F(GpuReach, LateAllReduceLeavesMemoryOfAnAbortedRankAlone) { ExpectMemoryLeftAlone(LateLaunch::Call::kAllReduce); }

TEST_F(GpuReach, LateSendLeavesMemoryOfAnAbortedRankAlone) { ExpectMemoryLeftAlone(LateLaunch::Call::kSend); }

// Other memory is mapped at the same address.
TEST_F(GpuReach, LateAllReduceLeavesWhatIsMappedAnewAlone) {
  const Pinned direct("symmetric_direct");
  const auto run = [](Team& team) {
    constexpr size_t kCount = kPieceBytes / sizeof(uint32_t);
    LateLaunch late(team, LateLaunch::Call::kAllReduce);
    uint8_t* row = Reserve(2 * kPieceBytes);
    uint8_t* recv = row + kPieceBytes;
    MapPiece(row, true);
    MapPiece(recv, true);
    late.Run(reinterpret_cast<uint32_t*>(row), reinterpret_cast<uint32_t*>(recv), kCount, [&] {
      UnmapPiece(recv);
      MapPiece(recv, true);
      return reinterpret_cast<uint32_t*>(recv);
    });
  };
  integration::RunThreads(2, run, Patient());
}

// Copies of rank 1's that its stream holds back, behind gates that the abort of rank 0 opens.
TEST_F(GpuReach, AbortAwaitsLateCopiesOfOtherRanksOfTheProcess) {
  std::atomic<bool> is_aborting{false};
  std::atomic<bool> is_let{false};
  const auto run = [&](Team& team) {
    constexpr size_t kCount = size_t{1} << 16;
    UseMyGpu(team.rank());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    NCCL_OK(ncclCommInitRankConfig(&comm, 2, id, team.rank(), &config));
    auto* memory = static_cast<uint8_t*>(Allocate(3 * kCount));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 3 * kCount, &window, NCCL_WIN_COLL_SYMMETRIC));
    const CudaStream stream = MakeStream();
    const auto gather = [&] {
      NCCL_OK(ncclAllGather(memory, memory + kCount, kCount, ncclUint8, comm, Native(stream)));
    };
    gather();
    ASSERT_TRUE(WaitFor(stream, kPatience));
    team.Barrier();
    uint64_t* word = team.rank() == 1 ? HoldStream(stream) : nullptr;
    gather();
    team.Barrier();
    if (team.rank() == 0) {
      is_aborting = true;
      Abort(comm);
      EXPECT_TRUE(is_let) << "abort does not wait for the copies of the other rank";
    } else {
      EXPECT_TRUE(integration::WaitUntil(10, [&] { return is_aborting.load(); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // its computing
      is_let = true;
      LetStream(word);
    }
    team.Barrier();
    EXPECT_TRUE(WaitFor(stream, 5)) << "it does not end";
    if (team.rank() == 1) Abort(comm);
    team.Barrier();
  };
  integration::RunThreads(2, run, Patient());
}

}  // namespace
}  // namespace sl::gpu

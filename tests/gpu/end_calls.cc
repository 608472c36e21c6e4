// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs, the end of a communicator beside kernels of another one, for which nobody waits. Part of
// gpu.calls_test.
#include <gtest/gtest.h>

#include <functional>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

using integration::NcclCase;

constexpr double kBound = 1.5;

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

}  // namespace
}  // namespace sl::gpu

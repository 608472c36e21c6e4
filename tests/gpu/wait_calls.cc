// SPDX-License-Identifier: Apache-2.0
//
// Limits on waits of kernels on GPUs.
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

// Blocks count for themselves: those that serve every other operation come to the numbers that block 0 had waited for
// long before. The last rank is late all the time, by much less than the limit; together it is late for twenty times
// the limit.
TEST_F(GpuLaunches, EndsNoLaunchThatWaitsShortlyOneAfterTheOther) {
  if (std::getenv("SL_FAKE_CUDA_DEVICES") != nullptr) GTEST_SKIP() << "threads that run kernels may be late themselves";
  const integration::Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "100");
  const Pinned two_shot("symmetric_two_shot");
  RunGpuRanks(2, [](GpuRank& me) {
    constexpr int kCalls = 134;
    constexpr std::chrono::milliseconds kLate{15};
    integration::NcclCase few, many;
    few.count = 2;         // one block
    many.count = 1 << 14;  // 64 KiB, two dozen
    GpuBuffers of_few(few, me.team.rank(), 2, 0);
    GpuBuffers of_many(many, me.team.rank(), 2, 0);
    for (GpuBuffers* first : {&of_few, &of_many}) {  // what is slow the first time
      NCCL_OK(first->Issue(me.comm, me.stream));
      ASSERT_TRUE(WaitFor(me.stream, kPatience));
      me.team.Barrier();
    }
    for (int call = 0; call < kCalls; ++call) {
      if (me.team.rank() == 1) std::this_thread::sleep_for(kLate);
      NCCL_OK((call % 2 == 0 ? of_few : of_many).Issue(me.comm, me.stream));
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "call " << call << " hangs";
      ncclResult_t state = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(me.comm, &state));
      ASSERT_EQ(state, ncclSuccess) << "call " << call << ": " << ncclGetLastError(me.comm);
    }
    EXPECT_EQ(of_few.Check(), "");
    EXPECT_EQ(of_many.Check(), "");
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

}  // namespace
}  // namespace sl::gpu

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/wait_length.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

constexpr uint64_t kMs = 1'000'000;

sl_wait_t WaitOf(int32_t peer, uint32_t step, uint64_t seen, uint64_t wanted) {
  sl_wait_t wait{};
  wait.struct_size = sizeof(wait);
  wait.peer = peer;
  wait.what = "chunk";
  wait.step = step;
  wait.seen = seen;
  wait.wanted = wanted;
  return wait;
}

TEST(WaitLength, GrowsWhileTheWaitStaysTheSame) {
  WaitLength length;
  EXPECT_EQ(length.See(WaitOf(1, 2, 3, 4), 0, 50 * kMs, 1000 * kMs), 0u) << "first seen";
  EXPECT_EQ(length.See(WaitOf(1, 2, 3, 4), 0, 60 * kMs, 1010 * kMs), 10 * kMs);
  EXPECT_EQ(length.See(WaitOf(1, 2, 3, 4), 0, 9000 * kMs, 1500 * kMs), 500 * kMs);
}

// As a driver tells that counts from the start of the launch.
TEST(WaitLength, BeginsAnewWithEveryMove) {
  const sl_wait_t moves[] = {WaitOf(1, 2, 3, 4), WaitOf(2, 2, 3, 4), WaitOf(2, 3, 3, 4), WaitOf(2, 3, 4, 4),
                             WaitOf(2, 3, 4, 5)};
  WaitLength length;
  uint64_t now_ns = 1000 * kMs;
  for (const sl_wait_t& wait : moves) {
    EXPECT_EQ(length.See(wait, 0, now_ns, now_ns), 0u);
    length.SetReported();
    now_ns += 30 * kMs;
    EXPECT_EQ(length.See(wait, 0, now_ns, now_ns), 30 * kMs);
    EXPECT_TRUE(length.is_reported());
  }
  length.See(WaitOf(2, 3, 5, 6), 0, now_ns, now_ns);
  EXPECT_FALSE(length.is_reported()) << "another wait, which may be reported, too";
}

// The driver has seen a move between two looks that found the same.
TEST(WaitLength, IsNoLongerThanTheDriverSays) {
  WaitLength length;
  length.See(WaitOf(1, 2, 3, 4), 0, 0, 1000 * kMs);
  EXPECT_EQ(length.See(WaitOf(1, 2, 3, 4), 0, 2 * kMs, 1500 * kMs), 2 * kMs);
}

// Behind another operation of the rank: that one moves, and this one has the same to say all the while.
TEST(WaitLength, BeginsAnewWhenThatMovesWhichIsAhead) {
  WaitLength length;
  for (uint64_t moves = 1; moves < 20; ++moves) {
    EXPECT_EQ(length.See(WaitOf(-1, 0, 0, 0), moves, moves * 10 * kMs, 1000 * kMs + moves * 10 * kMs), 0u);
  }
  EXPECT_EQ(length.See(WaitOf(-1, 0, 0, 0), 19, 900 * kMs, 2190 * kMs), 900 * kMs);
  length.Begin();
  EXPECT_EQ(length.See(WaitOf(-1, 0, 0, 0), 19, 900 * kMs, 3000 * kMs), 0u) << "another operation";
}

TEST(WaitLength, LimitsAreReachedByTheMillisecond) {
  Settings::Comm limits;
  limits.operation_timeout_ms = 100;
  limits.report_wait_ms = 30;
  EXPECT_EQ(DueOf(limits, 30 * kMs - 1, false), Due::kNothing);
  EXPECT_EQ(DueOf(limits, 30 * kMs, false), Due::kReport);
  EXPECT_EQ(DueOf(limits, 30 * kMs, true), Due::kNothing);
  EXPECT_EQ(DueOf(limits, 100 * kMs, true), Due::kTimeout);
  limits.operation_timeout_ms = limits.report_wait_ms = 0;  // no limit, no report
  EXPECT_EQ(DueOf(limits, UINT64_MAX, false), Due::kNothing);
}

}  // namespace
}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/completions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace sl::transport_tcp {
namespace {

sl_completion_t Put(uint64_t cookie) { return {cookie, nullptr, SL_OK, SL_COMPLETION_PUT}; }

TEST(Completions, HaveRoomForAsManyAsTheyTake) {
  Completions completions;
  for (uint64_t i = 0; i < Completions::kCells; ++i) ASSERT_TRUE(completions.Reserve());
  EXPECT_FALSE(completions.Reserve());
  completions.Publish(Put(1));
  EXPECT_FALSE(completions.Reserve()) << "what was not taken still has its cell";
  sl_completion_t taken = {};
  EXPECT_EQ(completions.Take(&taken, 1), 1u);
  EXPECT_EQ(taken.cookie, 1u);
  EXPECT_TRUE(completions.Reserve());
  completions.Cancel();
  EXPECT_TRUE(completions.Reserve());
}

// For ThreadSanitizer: the first thread's room is older than the consumer's look at the cell that it gets in the end,
// and nothing but the completions themselves orders the two.
TEST(Completions, WriteACellAfterItWasReadForAnother) {
  Completions completions;
  std::atomic<int> turn{0};
  std::vector<uint64_t> cookies;
  std::thread early([&] {
    EXPECT_TRUE(completions.Reserve());
    turn.store(1, std::memory_order_relaxed);
    while (turn.load(std::memory_order_relaxed) != 2) std::this_thread::yield();
    completions.Publish(Put(Completions::kCells));
  });
  std::thread busy([&] {
    while (turn.load(std::memory_order_relaxed) != 1) std::this_thread::yield();
    for (uint64_t i = 0; i < Completions::kCells; ++i) {
      while (!completions.Reserve()) std::this_thread::yield();
      completions.Publish(Put(i));
    }
    turn.store(2, std::memory_order_relaxed);
  });
  while (cookies.size() <= Completions::kCells) {
    sl_completion_t taken = {};
    if (completions.Take(&taken, 1) != 0) {
      cookies.push_back(taken.cookie);
    } else {
      std::this_thread::yield();
    }
  }
  early.join();
  busy.join();
  for (uint64_t i = 0; i < cookies.size(); ++i) EXPECT_EQ(cookies[i], i);
}

}  // namespace
}  // namespace sl::transport_tcp

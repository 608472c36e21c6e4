// SPDX-License-Identifier: Apache-2.0
#include "modules/checker/outstanding.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sl::checker {
namespace {

using Fate = Outstanding::Fate;

TEST(Outstanding, KnowsWhatBecameOfATokenAlsoWhenItsEntryIsUsedAgain) {
  Outstanding outstanding;
  Object connection{};
  Outstanding::Work work;
  std::vector<uint64_t> tokens;
  for (uint64_t cookie = 1; cookie <= Outstanding::kEntries; ++cookie) {
    tokens.push_back(outstanding.Begin({cookie, &connection, nullptr, 0}));
  }
  EXPECT_EQ(outstanding.Begin({1, &connection, nullptr, 0}), 0u);
  EXPECT_EQ(outstanding.Complete(tokens[5], &work), Fate::kOutstanding);
  EXPECT_EQ(work.cookie, 6u);
  EXPECT_EQ(outstanding.Complete(tokens[5], &work), Fate::kCompleted);
  outstanding.Cancel(tokens[6]);
  EXPECT_EQ(outstanding.Complete(tokens[6], &work), Fate::kNever);
  outstanding.Retire(&connection);
  EXPECT_EQ(outstanding.Complete(tokens[7], &work), Fate::kRetired);
  EXPECT_EQ(outstanding.Complete(tokens[5], &work), Fate::kCompleted);
  for (uint32_t i = 0; i < Outstanding::kEntries; ++i) EXPECT_NE(outstanding.Begin({1, &connection, nullptr, 0}), 0u);
  EXPECT_EQ(outstanding.Complete(tokens[7], &work), Fate::kForgotten);
  for (const uint64_t never : {uint64_t{0}, uint64_t{12345}, ~uint64_t{0}, tokens[7] + (uint64_t{9} << 16)}) {
    EXPECT_EQ(outstanding.Complete(never, &work), Fate::kNever) << never;
  }
}

// Each token is completed by one thread while another one retires its connection: one of the two does it, the other
// one learns so, and the region that the work borrows is given back once. They go through the entries towards each
// other, so that they meet in every round.
TEST(Outstanding, CompletesOrRetiresEachTokenOnce) {
  constexpr int kRounds = 2000;
  constexpr uint64_t kAtOnce = 512;
  Outstanding outstanding;
  Object connection{};
  Object region{};
  std::atomic<int> begun{0};
  std::atomic<int> retired{0};
  std::thread retiring([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (begun.load() < round) std::this_thread::yield();
      outstanding.Retire(&connection);
      retired.store(round);
    }
  });
  std::vector<uint64_t> tokens(kAtOnce);
  uint32_t untrue = 0;
  for (int round = 1; round <= kRounds; ++round) {
    for (uint64_t i = 0; i < kAtOnce; ++i) tokens[i] = outstanding.Begin({i, &connection, &region, 0});
    begun.store(round);
    for (uint64_t i = kAtOnce; i-- > 0;) {
      Outstanding::Work work;
      const Fate fate = outstanding.Complete(tokens[i], &work);
      const bool is_true = fate == Fate::kOutstanding ? work.cookie == i : fate == Fate::kRetired;
      untrue += is_true ? 0 : 1;
    }
    while (retired.load() < round) std::this_thread::yield();
    untrue += region.users.load();
  }
  retiring.join();
  EXPECT_EQ(untrue, 0u);
}

}  // namespace
}  // namespace sl::checker

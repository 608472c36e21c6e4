// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launch_waits.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kPeriodNs = 20 * kMs;

// Questions every 20 ms; the answer to each is read when the next one is asked.
class Asker {
 public:
  LaunchWaits& waits() { return waits_; }
  uint32_t Ask() {
    now_ns_ += kPeriodNs;
    waits_.Ask(now_ns_, now_ns_ + 1000);
    return waits_.asked();
  }
  LaunchWaits::Wait Answer(uint32_t since, uint64_t seen = 99, uint64_t wanted = 100) {
    sl_control_t said{};
    said.peer = 1;
    said.step = 4;
    said.seen = seen;
    said.wanted = wanted;
    said.since = since;
    said.answered = waits_.asked();
    return waits_.Answer(said, now_ns_ + kPeriodNs);
  }
  uint64_t LengthMs(uint32_t since) { return Answer(since).length_ns / kMs; }

 private:
  LaunchWaits waits_;
  uint64_t now_ns_ = 1000 * kMs;
};

// Operations of one block and of many in turn: a block that takes part in every other one comes to the numbers that
// another block had waited for long before. Each wait is over before the next question.
TEST(LaunchWaits, NoWaitHasTheAgeOfAnotherThatWaitedForTheSame) {
  Asker asker;
  for (int i = 0; i < 500; ++i) {
    const uint32_t newest = asker.Ask();
    EXPECT_EQ(asker.LengthMs(newest), 0u) << "the same peer, step and numbers, but a fresh wait: answer " << i;
  }
}

TEST(LaunchWaits, CountsFromTheFirstQuestionBehindTheBeginning) {
  Asker asker;
  for (int i = 0; i < 10; ++i) asker.Ask();
  const uint32_t since = asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 0u) << "it may have begun behind that question";
  asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 0u);
  asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 19u) << "less by the moment in which the question was asked";
  for (int i = 0; i < 10; ++i) asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 219u);
}

// Whoever answers first: a wait that has lasted is known though others answered before it.
TEST(LaunchWaits, AnswersOfOthersInBetweenTakeNothingFromALongWait) {
  Asker asker;
  const uint32_t since = asker.Ask();
  for (int i = 0; i < 20; ++i) {
    const uint32_t newest = asker.Ask();
    EXPECT_EQ(asker.LengthMs(newest), 0u);
  }
  asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 399u);
}

// Old questions are thinned out: never too long, and short by little.
TEST(LaunchWaits, LongWaitsAreKnownToWithinAFewPercent) {
  Asker asker;
  for (int before = 0; before < 5000; ++before) asker.Ask();
  const uint32_t since = asker.Ask();
  for (uint64_t periods = 1; periods < 20'000; ++periods) {
    asker.Ask();
    const uint64_t really_ms = (periods - 1) * kPeriodNs / kMs;
    const uint64_t told_ms = asker.LengthMs(since);
    ASSERT_LE(told_ms, really_ms) << periods;
    ASSERT_GE(told_ms + 20 + really_ms / 20, really_ms) << periods;
  }
}

TEST(LaunchWaits, AWaitIsReportedOnceAndALaterOneToo) {
  Asker asker;
  const uint32_t first = asker.Ask();
  const uint32_t beside = asker.Ask();
  asker.Ask();
  EXPECT_FALSE(asker.Answer(first).is_reported);
  asker.waits().SetReported();
  EXPECT_TRUE(asker.Answer(beside).is_reported) << "it waited, too";
  const uint32_t later = asker.Ask();
  asker.Ask();
  EXPECT_TRUE(asker.Answer(first).is_reported);
  EXPECT_FALSE(asker.Answer(later).is_reported);
}

TEST(LaunchWaits, QuestionsOfLaunchesThatAreOverCountForNoLaterWait) {
  Asker asker;
  const uint32_t since = asker.Ask();
  asker.Ask();
  asker.waits().Clear();
  asker.Ask();
  EXPECT_EQ(asker.LengthMs(since), 0u);
}

// Modules of an older revision do not say since when: the same words twice are one wait.
TEST(LaunchWaits, WaitsThatDoNotSaySinceWhenAreKnownByTheirWords) {
  Asker asker;
  asker.Ask();
  EXPECT_EQ(asker.Answer(0).length_ns, 0u);
  asker.Ask();
  EXPECT_EQ(asker.Answer(0).length_ns, 0u) << "it was named a period behind the first question";
  asker.Ask();
  EXPECT_EQ(asker.Answer(0).length_ns, kPeriodNs);
  EXPECT_EQ(asker.Answer(0, 100, 101).length_ns, 0u);
  EXPECT_FALSE(asker.Answer(0).is_reported);
  asker.waits().SetReported();
  EXPECT_TRUE(asker.Answer(0).is_reported);
  asker.waits().Miss();
  EXPECT_EQ(asker.Answer(0).length_ns, 0u) << "nobody waited for a while";
}

}  // namespace
}  // namespace sl::kernel

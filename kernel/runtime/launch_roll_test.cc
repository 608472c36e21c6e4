// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launch_roll.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <semaphore>
#include <string>

#include "sdk/clock.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kLongNs = 60'000'000'000;

// A rank of a communicator; its launch runs until it is told to end, or for ever.
struct Rank {
  Rank(LaunchRoll* the_roll, uint64_t comm_id, bool ends = true) : roll(the_roll) {
    place = roll->Enter({
        .comm_id = comm_id,
        .may_run =
            [this] {
              ++asked;
              return runs.load();
            },
        .may_replay = [this] { return has_graphs.load(); },
        .give_up =
            [this, ends](const Status& status) {
              why = status.message();
              if (ends) runs = false;
            },
    });
  }
  ~Rank() {
    if (place != nullptr) roll->Leave(place);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  LaunchRoll* const roll;
  std::shared_ptr<LaunchRoll::Place> place;
  std::atomic<bool> runs{true};
  std::atomic<bool> has_graphs{false};
  std::atomic<uint32_t> asked{0};
  std::string why;
};

TEST(LaunchRoll, IsQuietWhenNoLaunchRuns) {
  LaunchRoll roll;
  EXPECT_TRUE(roll.IsQuiet());
  Rank one(&roll, 1);
  Rank other(&roll, 2);
  one.has_graphs = true;  // of which nobody knows
  one.runs = false;
  EXPECT_FALSE(roll.IsQuiet());
  other.runs = false;
  EXPECT_TRUE(roll.IsQuiet());
}

TEST(LaunchRoll, EndsAndAwaitsTheOtherRanksOfTheCommunicator) {
  LaunchRoll roll;
  Rank own(&roll, 1);
  Rank sibling(&roll, 1);
  Rank stranger(&roll, 2);
  EXPECT_FALSE(roll.AwaitOthers(*own.place, NowNs())) << "the sibling's runs";
  roll.GiveUpOthers(*own.place, {SL_ERR_PEER_LOST, "rank 0 is gone"});
  EXPECT_TRUE(roll.AwaitOthers(*own.place, NowNs() + kLongNs));
  EXPECT_EQ(sibling.why, "rank 0 is gone");
  EXPECT_EQ(own.why, "");
  EXPECT_EQ(stranger.why, "");
  EXPECT_TRUE(own.runs);
  EXPECT_TRUE(stranger.runs);
}

// A rank that becomes ready when another one has given up already.
TEST(LaunchRoll, EndsWhoComesToACommunicatorThatWasGivenUp) {
  LaunchRoll roll;
  Rank own(&roll, 1);
  roll.GiveUpOthers(*own.place, {SL_ERR_PEER_LOST, "rank 0 is gone"});
  const Rank late(&roll, 1);
  EXPECT_EQ(late.why, "rank 0 is gone");
  const Rank stranger(&roll, 2);
  EXPECT_EQ(stranger.why, "");
  for (uint64_t id = 3; id < 100; ++id) {
    const Rank other(&roll, id);
    roll.GiveUpOthers(*other.place, Status(SL_ERR_PEER_LOST));
  }
  const Rank last(&roll, 99);
  EXPECT_FALSE(last.runs) << "the latest are known";
}

TEST(LaunchRoll, AwaitsNobodyBeyondTheDeadline) {
  LaunchRoll roll;
  Rank own(&roll, 1);
  Rank sibling(&roll, 1, false);
  roll.GiveUpOthers(*own.place, Status(SL_ERR_PEER_LOST));
  EXPECT_FALSE(roll.AwaitOthers(*own.place, NowNs() + 1'000'000));
  EXPECT_GE(sibling.asked, 1u);
}

TEST(LaunchRoll, TakesReplaysToRun) {
  LaunchRoll roll;
  Rank own(&roll, 1);
  Rank sibling(&roll, 1);
  sibling.runs = false;
  sibling.has_graphs = true;
  EXPECT_FALSE(roll.AwaitOthers(*own.place, NowNs() + 1'000'000));
  sibling.has_graphs = false;
  EXPECT_TRUE(roll.AwaitOthers(*own.place, NowNs() + kLongNs));
}

// A driver may answer when the launch has ended that the rank is told to give up.
TEST(LaunchRoll, EndsARankWhileItsAnswerIsAwaited) {
  LaunchRoll roll;
  const Rank own(&roll, 1);
  std::binary_semaphore is_asked{0};
  std::binary_semaphore has_given_up{0};
  const auto place = roll.Enter({
      .comm_id = 1,
      .may_run =
          [&] {
            is_asked.release();
            return !has_given_up.try_acquire_for(std::chrono::seconds(10));
          },
      .may_replay = [] { return false; },
      .give_up = [&](const Status&) { has_given_up.release(); },
  });
  auto awaited = std::async(std::launch::async, [&] { return roll.AwaitOthers(*own.place, NowNs()); });
  is_asked.acquire();
  roll.GiveUpOthers(*own.place, Status(SL_ERR_PEER_LOST));
  EXPECT_TRUE(awaited.get()) << "who is asked is not told";
  roll.Leave(place);
}

TEST(LaunchRoll, AsksNothingOfWhoHasLeft) {
  LaunchRoll roll;
  std::binary_semaphore is_asked{0};
  std::binary_semaphore may_answer{0};
  const auto place = roll.Enter({
      .comm_id = 1,
      .may_run =
          [&] {
            is_asked.release();
            may_answer.acquire();
            return true;
          },
      .may_replay = [] { return false; },
      .give_up = [](const Status&) {},
  });
  auto quiet = std::async(std::launch::async, [&] { return roll.IsQuiet(); });
  is_asked.acquire();
  auto left = std::async(std::launch::async, [&] { roll.Leave(place); });
  // A member that takes long to answer keeps nobody else from the roll.
  Rank other(&roll, 2);
  other.runs = false;
  may_answer.release();
  left.get();
  EXPECT_FALSE(quiet.get());
  EXPECT_TRUE(roll.IsQuiet()) << "who has left is asked";
}

}  // namespace
}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/signal_waits.h"

#include <gtest/gtest.h>

#include <vector>

namespace sl::kernel {
namespace {

using Kind = SignalWaits::Kind;

// The slice of rank 0 of three, with the test in the place of its stream.
class SignalWaitsTest : public testing::Test {
 protected:
  static constexpr uint32_t kRanks = 3;

  SignalWaitsTest() { board_.Prepare(0); }
  SignalBoard::Entry& Of(uint32_t peer) { return *board_.At(0, peer); }
  const std::vector<SignalWaits::Wait>& Look(uint64_t now_ns) {
    waits_.Look(board_, 0, kRanks, now_ns);
    return waits_.under_way();
  }

  std::vector<SignalBoard::Entry> memory_ = std::vector<SignalBoard::Entry>(kRanks);
  const SignalBoard board_{reinterpret_cast<uint8_t*>(memory_.data()), 0, kRanks};
  SignalWaits waits_;
};

TEST_F(SignalWaitsTest, FindsNothingWhenNoStreamHasComeToAWait) {
  Of(1).raised = 3;
  EXPECT_TRUE(Look(10).empty());
}

TEST_F(SignalWaitsTest, KeepsTheTimeOfACountedWaitUntilASignalComes) {
  Of(1).raised_awaited = 2;
  Of(2).raised_awaited = 1;
  ASSERT_EQ(Look(10).size(), 2u);
  Of(1).raised = 1;
  ASSERT_EQ(Look(20).size(), 2u);
  const auto& waits = waits_.under_way();
  EXPECT_EQ(waits[0].peer, 1);
  EXPECT_EQ(waits[0].seen, 1u);
  EXPECT_EQ(waits[0].wanted, 2u);
  EXPECT_EQ(waits[0].since_ns, 20u) << "it has moved";
  EXPECT_EQ(waits[1].since_ns, 10u);
  Of(1).raised = 2;
  Of(2).raised = 5;
  EXPECT_TRUE(Look(30).empty());
}

TEST_F(SignalWaitsTest, RemembersWhatWasReported) {
  Of(1).raised_awaited = 1;
  Look(10);
  waits_.under_way()[0].is_reported = true;
  EXPECT_TRUE(Look(20)[0].is_reported);
  Of(1).raised = 1;
  Look(30);
  Of(1).raised_awaited = 2;
  EXPECT_FALSE(Look(40)[0].is_reported);
}

TEST_F(SignalWaitsTest, KeepsTheTimeOfACapturedWait) {
  Of(1).flags_awaited = 2;
  Look(10);
  ASSERT_EQ(Look(20).size(), 1u);
  EXPECT_EQ(waits_.under_way()[0].kind, Kind::kCaptured);
  EXPECT_EQ(waits_.under_way()[0].wanted, 2u);
  EXPECT_EQ(waits_.under_way()[0].since_ns, 10u);
}

// Two replays write the same numbers, and between two looks the first may have ended and the second begun.
TEST_F(SignalWaitsTest, NeverTakesTheNextReplayForTheOneBefore) {
  Of(1).flags_awaited = 1;
  Of(2).room = 0;
  Of(2).room_awaited = 1;
  ASSERT_EQ(Look(10).size(), 2u);
  Of(1).flags_awaited = 0;
  Of(1).flags_awaited = 1;
  Of(2).room_awaited = 0;
  Of(2).room_awaited = 1;
  ASSERT_EQ(Look(20).size(), 2u);
  for (const SignalWaits::Wait& wait : waits_.under_way()) EXPECT_EQ(wait.since_ns, 20u);
}

TEST_F(SignalWaitsTest, FindsNoCapturedWaitForWhatIsThere) {
  Of(1).flags_awaited = 1;
  Of(1).flag = 1;
  Of(1).room_awaited = 1;
  EXPECT_TRUE(Look(10).empty());
}

// As a stream leaves them that waits at the gate.
TEST_F(SignalWaitsTest, FindsWhoHasNotComeToAGate) {
  for (const auto space : {SignalBoard::kEager, SignalBoard::kCaptured, SignalBoard::kCapturedToo}) {
    Of(0).gate_awaited[space] = 1 + SignalBoard::kEnd;
    Of(1).gates[space][SignalBoard::kEnd] = 1;
    Of(2).gates[space][SignalBoard::kBegin] = 1;
    ASSERT_EQ(Look(10).size(), 1u);
    ASSERT_EQ(Look(20).size(), 1u);
    const SignalWaits::Wait& wait = waits_.under_way()[0];
    EXPECT_EQ(wait.kind, space == SignalBoard::kEager ? Kind::kGate : Kind::kCapturedGate);
    EXPECT_EQ(wait.peer, 2);
    EXPECT_EQ(wait.wanted, 1u + SignalBoard::kEnd);
    EXPECT_EQ(wait.since_ns, 10u);
    Of(2).gates[space][SignalBoard::kEnd] = 1;
    EXPECT_TRUE(Look(30).empty()) << "all have come";
    Of(0).gate_awaited[space] = 0;
    EXPECT_TRUE(Look(40).empty()) << "it is through";
  }
}

TEST_F(SignalWaitsTest, NeverTakesTheNextPassingOfAGateForTheOneBefore) {
  Of(0).gate_awaited[SignalBoard::kEager] = 1 + SignalBoard::kBegin;
  ASSERT_EQ(Look(10).size(), 2u);
  Of(0).gate_awaited[SignalBoard::kEager] = 0;
  Of(0).gate_awaited[SignalBoard::kEager] = 1 + SignalBoard::kBegin;
  ASSERT_EQ(Look(20).size(), 2u);
  for (const SignalWaits::Wait& wait : waits_.under_way()) EXPECT_EQ(wait.since_ns, 20u);
}

TEST_F(SignalWaitsTest, FindsNothingOnceStreamsAreReleased) {
  Of(0).raised_awaited = 7;
  Of(1).flags_awaited = 1;
  Of(2).room = 0;
  Of(2).room_awaited = 1;
  Of(0).gate_awaited[SignalBoard::kCaptured] = 1 + SignalBoard::kMiddle;
  EXPECT_EQ(Look(10).size(), 5u);
  board_.Release(0);
  EXPECT_TRUE(Look(20).empty());
}

}  // namespace
}  // namespace sl::kernel

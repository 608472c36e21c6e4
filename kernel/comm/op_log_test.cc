// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/op_log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sl::kernel {
namespace {

struct alignas(64) Line {
  uint8_t bytes[64] = {};
};

TEST(OpLog, RemembersRecentCallsOfEveryRank) {
  std::vector<Line> memory(2 * OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog mine(base, OpLog::kBytes, 0, 2), theirs(base, OpLog::kBytes, 1, 2);
  EXPECT_EQ(mine.Newest(1), 0u);
  for (uint64_t sequence = 1; sequence <= 100; ++sequence) theirs.Write(sequence, sequence * 7);
  EXPECT_EQ(mine.Newest(1), 100u);
  uint64_t signature = 0;
  EXPECT_TRUE(mine.Read(1, 100, &signature));
  EXPECT_EQ(signature, 700u);
  EXPECT_FALSE(mine.Read(1, 1, &signature)) << "overwritten long ago";
  EXPECT_FALSE(mine.Read(1, 101, &signature)) << "not called yet";
}

TEST(OpLog, TellsWhatServesACallOnceThatIsKnown) {
  std::vector<Line> memory(2 * OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog mine(base, OpLog::kBytes, 0, 2), theirs(base, OpLog::kBytes, 1, 2);
  uint32_t choice = 0;
  theirs.Write(1, 7);
  EXPECT_FALSE(mine.ReadChoice(1, 1, &choice)) << "not chosen yet";
  theirs.WriteChoice(1, 99);
  EXPECT_TRUE(mine.ReadChoice(1, 1, &choice));
  EXPECT_EQ(choice, 99u);
  theirs.Write(1 + OpLog::kRecords, 7);
  EXPECT_FALSE(mine.ReadChoice(1, 1, &choice)) << "overwritten";
  EXPECT_FALSE(mine.ReadChoice(1, 1 + OpLog::kRecords, &choice)) << "that was chosen for another call";
  theirs.WriteChoice(1, 98);
  EXPECT_FALSE(mine.ReadChoice(1, 1 + OpLog::kRecords, &choice)) << "of a group whose first call is forgotten";
}

// The log of a rank whose calls can be changed after the fact, which shows whether they are looked at again.
class Differences : public ::testing::Test {
 protected:
  void Call(OpLog* log, uint64_t sequence, uint64_t signature, uint32_t choice) {
    log->Write(sequence, signature);
    if (choice != 0) log->WriteChoice(sequence, choice);
  }
  uint8_t* base() { return reinterpret_cast<uint8_t*>(memory_.data()); }

  std::vector<Line> memory_{2 * OpLog::kBytes / 64};
  OpLog mine_{base(), OpLog::kBytes, 0, 2}, theirs_{base(), OpLog::kBytes, 1, 2};
};

TEST_F(Differences, AreFoundAndStay) {
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) Call(&mine_, sequence, sequence * 7, 5);
  EXPECT_FALSE(mine_.FindDifference(1)) << "the peer has called nothing yet";
  Call(&theirs_, 1, 7, 5);
  EXPECT_FALSE(mine_.FindDifference(1));
  Call(&theirs_, 2, 15, 5);
  Call(&theirs_, 3, 22, 5);
  for (int asked = 0; asked < 2; ++asked) {
    const auto found = mine_.FindDifference(1);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->sequence, 2u) << "the first one";
    EXPECT_EQ(found->mine, 14u);
    EXPECT_EQ(found->theirs, 15u);
    EXPECT_EQ(found->my_choice, 0u);
  }
}

TEST_F(Differences, OfWhatServesACallAreFoundOnceItIsKnown) {
  Call(&mine_, 1, 7, 5);
  Call(&mine_, 2, 8, 5);
  Call(&theirs_, 1, 7, 0);
  Call(&theirs_, 2, 8, 5);
  EXPECT_FALSE(mine_.FindDifference(1));
  theirs_.WriteChoice(1, 6);
  const auto found = mine_.FindDifference(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->sequence, 1u);
  EXPECT_EQ(found->my_choice, 5u);
  EXPECT_EQ(found->their_choice, 6u);
}

TEST_F(Differences, AreLookedForOnceInEachPairOfCalls) {
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) {
    Call(&mine_, sequence, sequence, 5);
    Call(&theirs_, sequence, sequence, 5);
  }
  EXPECT_FALSE(mine_.FindDifference(1));
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) theirs_.Write(sequence, 99);
  EXPECT_FALSE(mine_.FindDifference(1));
  Call(&mine_, 11, 11, 5);
  Call(&theirs_, 11, 12, 5);
  const auto found = mine_.FindDifference(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->sequence, 11u);
}

TEST_F(Differences, AreNotLookedForInWhatIsForgotten) {
  for (uint64_t sequence = 1; sequence <= OpLog::kRecords; ++sequence) Call(&mine_, sequence, sequence, 5);
  for (uint64_t sequence = 1; sequence <= 2 * OpLog::kRecords; ++sequence) Call(&theirs_, sequence, sequence + 1, 5);
  EXPECT_FALSE(mine_.FindDifference(1)) << "the peer is too far ahead for any call to be on record at both";
  Call(&mine_, OpLog::kRecords + 1, OpLog::kRecords + 1, 5);
  const auto found = mine_.FindDifference(1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->sequence, OpLog::kRecords + 1);
}

TEST(OpLog, TellsWhoHasEnded) {
  std::vector<Line> memory(2 * OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog mine(base, OpLog::kBytes, 0, 2), theirs(base, OpLog::kBytes, 1, 2);
  EXPECT_FALSE(mine.HasEnded(1));
  theirs.MarkEnd();
  EXPECT_TRUE(mine.HasEnded(1));
  EXPECT_FALSE(mine.HasEnded(0));
}

TEST(OpLog, NeverShowsAMixedRecord) {
  std::vector<Line> memory(OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog log(base, OpLog::kBytes, 0, 1);
  constexpr uint64_t kCalls = 200000;
  std::thread writer([&] {
    for (uint64_t sequence = 1; sequence <= kCalls; ++sequence) log.Write(sequence, ~sequence);
  });
  uint64_t seen = 0;
  for (uint64_t newest = 0; newest < kCalls;) {
    newest = log.Newest(0);
    uint64_t signature = 0;
    if (newest == 0 || !log.Read(0, newest, &signature)) continue;
    ++seen;
    ASSERT_EQ(signature, ~newest);
  }
  writer.join();
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace sl::kernel

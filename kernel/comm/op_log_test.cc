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
  OpLog mine(base, OpLog::kBytes, 0), theirs(base, OpLog::kBytes, 1);
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
  OpLog mine(base, OpLog::kBytes, 0), theirs(base, OpLog::kBytes, 1);
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

TEST(OpLog, TellsWhoHasEnded) {
  std::vector<Line> memory(2 * OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog mine(base, OpLog::kBytes, 0), theirs(base, OpLog::kBytes, 1);
  EXPECT_FALSE(mine.HasEnded(1));
  theirs.MarkEnd();
  EXPECT_TRUE(mine.HasEnded(1));
  EXPECT_FALSE(mine.HasEnded(0));
}

TEST(OpLog, NeverShowsAMixedRecord) {
  std::vector<Line> memory(OpLog::kBytes / 64);
  auto* base = reinterpret_cast<uint8_t*>(memory.data());
  OpLog log(base, OpLog::kBytes, 0);
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

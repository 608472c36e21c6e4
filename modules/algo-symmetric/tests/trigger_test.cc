// SPDX-License-Identifier: Apache-2.0
//
// When kernels let the next one in their stream in, and what keeps two launches of a lane apart that run at the same
// time because of it. Threads stand for GPUs, and a block's calls of LetNextGridLaunch are counted.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "modules/algo-symmetric/tests/gpu_team.h"

namespace sl::algo_symmetric {
namespace {

GpuSettings SettingsWith(Trigger trigger) {
  GpuSettings settings = GpuTeam::SettingsOf(2);
  settings.trigger = trigger;
  return settings;
}

// An operation that the family serves itself.
Case CaseOf(const Family* family, uint64_t count) {
  std::mt19937 random(1);
  Case one = Case::Random(2, random);
  one.family = family;
  one.op.kind = family == &families::kPush   ? SL_OP_REDUCE_SCATTER
                : family == &families::kBulk ? SL_OP_ALL_GATHER
                                             : SL_OP_ALL_REDUCE;
  one.op.datatype = SL_UINT32;
  one.op.reduction = SL_SUM;
  one.op.count = count;
  one.offset = 0;
  one.askew = -1;
  one.in_place = false;
  one.Fill();
  return one;
}

// Whether the rank says within 10 s that it waits for a peer.
bool SaysThatItWaits(sl_control_t& control) {
  std::atomic_ref<uint32_t>(control.asked).store(1, std::memory_order_release);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::atomic_ref<uint32_t>(control.answered).load(std::memory_order_acquire) != 1) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Entries {
  uint64_t meanwhile;  // blocks that let the next grid in while rank 0 waited for its peer
  uint64_t in_all;     // of both ranks
  uint32_t blocks;     // of both
};

Entries EntriesOf(GpuTeam& team, Case& one) {
  dev::grids_let_in = 0;
  std::thread waiting([&] { team.Run(0, one.For(0), one.family); });
  EXPECT_TRUE(SaysThatItWaits(team.control(0)));
  Entries entries{};
  entries.meanwhile = dev::grids_let_in;
  team.Run(1, one.For(1), one.family);
  waiting.join();
  entries.in_all = dev::grids_let_in;
  entries.blocks = 2 * team.ChoiceFor(0, one.op, one.family).blocks;
  EXPECT_EQ(one.Wrong(), "");
  return entries;
}

TEST(Triggers, LetNobodyInBeforeABlockHasHeardAll) {
  for (uint32_t family = 0; family < kFamilies.size(); ++family) {
    for (const uint64_t count : {2, 3001}) {
      SCOPED_TRACE(std::string(kFamilies[family]->words) + " of " + std::to_string(count));
      Case one = CaseOf(kFamilies[family], count);
      GpuTeam by_exit(2, SettingsWith(Trigger::kExit));
      const Entries exits = EntriesOf(by_exit, one);
      EXPECT_EQ(exits.in_all, 0u) << "by the exit of blocks alone";
      one.Fill();
      GpuTeam by_call(2, SettingsWith(Trigger::kHeard));
      const Entries calls = EntriesOf(by_call, one);
      EXPECT_EQ(calls.meanwhile, 0u);
      EXPECT_EQ(calls.in_all, one.family->is_lamport ? 0 : calls.blocks) << "what makes places blank exits";
    }
  }
}

// A block's first call counts, so that a smallest operation that calls again at its end lets nobody in then.
TEST(Triggers, LetOthersInEarlyWhereAsked) {
  Case one = CaseOf(&families::kOneShot, 2);
  GpuTeam team(2, SettingsWith(Trigger::kSent));
  ASSERT_TRUE(team.IsPromptOn(0, one.For(0)));
  const Entries entries = EntriesOf(team, one);
  EXPECT_EQ(entries.meanwhile, 1u);
  EXPECT_EQ(entries.in_all, 2 * entries.blocks);
}

TEST(Triggers, AreExitsWhereLaunchesAreNotDependent) {
  for (const Trigger trigger : {Trigger::kExit, Trigger::kHeard, Trigger::kSent}) {
    GpuSettings settings = SettingsWith(trigger);
    EXPECT_EQ(GpuTeam(2, settings).team(0).trigger, trigger);
    settings.depends = false;
    EXPECT_EQ(GpuTeam(2, settings).team(0).trigger, Trigger::kExit);
  }
}

TEST(Triggers, AreExitsOfOrdinaryLaunchesOnAHeapInHostMemory) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.size = 2;
  EXPECT_TRUE(SettingsWith(Trigger::kSent).On(shape).depends);
  shape.heap_on_host = 1;
  EXPECT_FALSE(SettingsWith(Trigger::kSent).On(shape).depends);
}

// Word [ended, begun] of the rank's first block.
uint32_t* EpochWord(GpuTeam& team, uint32_t rank, uint32_t word) {
  const Team view = team.team(rank);
  return reinterpret_cast<uint32_t*>(view.At(rank, view.layout.epochs)) + word * kPacketBlocks;
}

// Rank 0's launch before is in the middle of epoch 1, which rank 1 has ended already.
TEST(Triggers, AwaitTheEndOfAnEpochThatAnotherLaunchHasBegun) {
  for (const Family* family :
       {&families::kOneShot, &families::kTwoShot, &families::kLamportOneShot, &families::kLamportTwoShot}) {
    for (const uint64_t count : {2, 301}) {
      SCOPED_TRACE(std::string(family->words) + " of " + std::to_string(count));
      Case one = CaseOf(family, count);
      GpuTeam team(2, SettingsWith(Trigger::kHeard));
      const uint32_t blocks = team.ChoiceFor(0, one.op, family).blocks;
      for (uint32_t b = 0; b < blocks; ++b) {
        EpochWord(team, 0, 1)[b] = EpochWord(team, 1, 0)[b] = EpochWord(team, 1, 1)[b] = 1;
      }
      std::thread second([&] { team.Run(0, one.For(0), family); });
      std::thread peer([&] { team.Run(1, one.For(1), family); });
      EXPECT_TRUE(SaysThatItWaits(team.control(1)));
      EXPECT_EQ(team.control(1).wanted, 2u);
      // Had the second launch taken the epoch of the first, it would say now what it waits for in it.
      std::atomic_ref<uint32_t>(team.control(0).asked).store(1, std::memory_order_release);
      for (int look = 0; look < 1000; ++look) std::this_thread::yield();
      EXPECT_EQ(std::atomic_ref<uint32_t>(team.control(0).answered).load(std::memory_order_acquire), 0u);
      EXPECT_EQ(std::atomic_ref<uint32_t>(*EpochWord(team, 0, 1)).load(std::memory_order_acquire), 1u);
      if (testing::Test::HasFailure()) {
        for (uint32_t r = 0; r < 2; ++r) {
          std::atomic_ref<int32_t>(team.control(r).abort).store(SL_ERR_ABORTED, std::memory_order_release);
        }
      }
      for (uint32_t b = 0; b < blocks; ++b) dev::StoreRelease(EpochWord(team, 0, 0) + b, 1u);
      second.join();
      peer.join();
      if (testing::Test::HasFailure()) return;
      EXPECT_EQ(one.Wrong(), "");
      EXPECT_EQ(*EpochWord(team, 0, 0), 2u);
      EXPECT_EQ(*EpochWord(team, 0, 1), 2u);
    }
  }
}

// What gave up in the middle of an epoch has ended, too.
TEST(Triggers, FindALaunchThatGaveUpWhereTheyAwaitItsEnd) {
  Case one = CaseOf(&families::kOneShot, 2);
  GpuTeam team(2, SettingsWith(Trigger::kHeard));
  *EpochWord(team, 0, 1) = 1;
  std::thread second([&] { team.Run(0, one.For(0), &families::kOneShot); });
  dev::StoreRelease(EpochWord(team, 0, 0), kEndedEpoch);
  second.join();
  EXPECT_EQ(*EpochWord(team, 0, 0), kEndedEpoch);
  EXPECT_EQ(*EpochWord(team, 0, 1), 1u) << "it has begun nothing";
}

// As they are launched for real: many operations one after the other, in every family, also across the wrap.
TEST(Triggers, LeaveResultsRight) {
  for (const Trigger trigger : {Trigger::kHeard, Trigger::kSent}) {
    GpuSettings settings = SettingsWith(trigger);
    settings.first_epoch = UINT32_MAX - 10;
    GpuTeam team(3, settings);
    std::mt19937 random(7);
    std::vector<Case> cases;
    for (int i = 0; i < 80; ++i) cases.push_back(Case::Random(3, random));
    team.RunAll(cases);
    for (Case& one : cases) EXPECT_EQ(one.Wrong(), "");
  }
}

}  // namespace
}  // namespace sl::algo_symmetric

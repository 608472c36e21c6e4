// SPDX-License-Identifier: Apache-2.0
#include "kernel/events/ring.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

namespace sl::kernel {
namespace {

sl_record_t Record(uint32_t kind, uint64_t value) {
  sl_record_t record{};
  record.kind = kind;
  record.value = value;
  return record;
}

struct Taken {
  std::map<uint32_t, std::vector<sl_record_t>> by_ring;
  uint64_t dropped = 0;

  static void Take(void* ctx, const EventBatch& batch) {
    auto* taken = static_cast<Taken*>(ctx);
    auto& records = taken->by_ring[batch.ring];
    records.insert(records.end(), batch.records, batch.records + batch.count);
    taken->dropped = std::max(taken->dropped, batch.dropped);
  }
  uint64_t Drain() { return DrainEventRings(&Take, this); }
};

class RingTest : public ::testing::Test {
 protected:
  void TearDown() override {
    SetEventMask(0);
    Taken rest;
    while (rest.Drain() != 0) {
    }
    SetEventRingCapacity(4096);
  }
};

TEST_F(RingTest, FullRingDropsTheNewestAndCounts) {
  EventRing ring(0, 16);
  for (uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(ring.Push(Record(SL_EVENT_STEP, i)));
  EXPECT_FALSE(ring.Push(Record(SL_EVENT_STEP, 99)));
  EXPECT_EQ(1u, ring.dropped());
  const sl_record_t* records = nullptr;
  ASSERT_EQ(16u, ring.Peek(&records));
  EXPECT_EQ(0u, records[0].value);
  EXPECT_EQ(15u, records[15].value);
  ring.Pop(16);
  EXPECT_TRUE(ring.Push(Record(SL_EVENT_STEP, 16)));
  ASSERT_EQ(1u, ring.Peek(&records));
  EXPECT_EQ(16u, records[0].value);
}

TEST_F(RingTest, OffMeansNoRing) {
  const uint32_t before = EventRingCount();
  std::thread writer([] { Emit(Record(SL_EVENT_STEP, 1)); });
  writer.join();
  EXPECT_EQ(before, EventRingCount());
  EXPECT_FALSE(EventWanted(SL_EVENT_STEP));
}

TEST_F(RingTest, OnlyWantedKindsAreKeptAndTimed) {
  SetEventMask(1u << SL_EVENT_STEP);
  std::thread writer([] {
    Emit(Record(SL_EVENT_FAULT, 1));
    Emit(Record(SL_EVENT_STEP, 2));
  });
  writer.join();
  Taken taken;
  EXPECT_EQ(1u, taken.Drain());
  const sl_record_t& record = taken.by_ring.begin()->second.at(0);
  EXPECT_EQ(2u, record.value);
  EXPECT_NE(0u, record.time_ns);
}

TEST_F(RingTest, OutlivesItsThreadUntilDrained) {
  SetEventMask(1u << SL_EVENT_STEP);
  const uint32_t before = EventRingCount();
  std::thread writer([] { Emit(Record(SL_EVENT_STEP, 5)); });
  writer.join();
  EXPECT_EQ(before + 1, EventRingCount());
  Taken taken;
  EXPECT_EQ(1u, taken.Drain());
  EXPECT_EQ(before, EventRingCount());
}

TEST_F(RingTest, ManyWritersLoseNothingButWhatIsCounted) {
  constexpr uint64_t kRecords = 20000;
  constexpr int kThreads = 3;
  SetEventRingCapacity(256);
  SetEventMask(1u << SL_EVENT_STEP);
  const uint64_t dropped_before = EventRecordsDropped();
  std::atomic<int> running{kThreads};
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&running] {
      for (uint64_t i = 1; i <= kRecords; ++i) Emit(Record(SL_EVENT_STEP, i));
      running.fetch_sub(1);
    });
  }
  Taken taken;
  while (running.load() > 0) taken.Drain();
  for (std::thread& writer : writers) writer.join();
  while (taken.Drain() != 0) {
  }
  uint64_t received = 0;
  for (const auto& [ring, records] : taken.by_ring) {
    received += records.size();
    for (size_t i = 1; i < records.size(); ++i) ASSERT_LT(records[i - 1].value, records[i].value) << "ring " << ring;
  }
  EXPECT_EQ(kThreads * kRecords, received + EventRecordsDropped() - dropped_before);
}

}  // namespace
}  // namespace sl::kernel

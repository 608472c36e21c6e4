// SPDX-License-Identifier: Apache-2.0
#include "sdk/plan_writer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// Takes down what it is told and refuses the call that `fail_at` counts to, from 0.
struct sl_plan_builder_t {
  std::vector<size_t> lanes;  // where each begins in `steps`
  std::vector<sl_step_t> steps;
  size_t calls = 0;
  size_t fail_at = SIZE_MAX;

  sl_status_t Answer() { return calls++ == fail_at ? SL_ERR_INVALID : SL_OK; }
};

namespace sl {
namespace {

sl_status_t RecordDesc(sl_plan_builder_t* builder, const sl_plan_desc_t*) { return builder->Answer(); }
sl_status_t RecordLane(sl_plan_builder_t* builder) {
  builder->lanes.push_back(builder->steps.size());
  return builder->Answer();
}
sl_status_t RecordStep(sl_plan_builder_t* builder, const sl_step_t* step) {
  builder->steps.push_back(*step);
  return builder->Answer();
}
constexpr sl_plan_builder_ops_t kRecorder = {sizeof(kRecorder), 0, RecordDesc, RecordLane, RecordStep};

TEST(PlanWriter, PutsTheRepeatedStepsBehindTheirRepeat) {
  sl_plan_builder_t builder;
  PlanWriter writer(&kRecorder, &builder);
  writer.Begin(sl_plan_desc_t{}, 1);
  writer.Repeat(3, [&] {
    writer.Wait(2, RecvBlock(0, 1));
    writer.Release(2, RecvBlock(0, 1));
  });
  writer.Repeat(0, [&] { writer.Put(3, SendBlock(0)); });
  writer.Repeat(3, [] {});
  EXPECT_EQ(writer.status(), SL_OK);
  ASSERT_EQ(builder.steps.size(), 3u);
  EXPECT_EQ(builder.steps[0].kind, SL_STEP_REPEAT);
  EXPECT_EQ(builder.steps[0].length, 2u);
  EXPECT_EQ(builder.steps[0].count, 3u);
  EXPECT_EQ(builder.steps[2].peer, 2);
  EXPECT_EQ(builder.steps[2].lane, 1u);
}

TEST(PlanWriter, PutsEveryLaneOnTheLinksItNames) {
  sl_plan_builder_t builder;
  PlanWriter writer(&kRecorder, &builder);
  writer.Begin(sl_plan_desc_t{});
  writer.Reserve(1, SendBlock(0));
  writer.NextLane(1);
  writer.Reserve(1, SendBlock(0));
  EXPECT_EQ(builder.lanes, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(builder.steps[0].lane, 0u);
  EXPECT_EQ(builder.steps[1].lane, 1u);
}

TEST(PlanWriter, SaysWhatAReductionReadsAndWrites) {
  sl_plan_builder_t builder;
  PlanWriter writer(&kRecorder, &builder);
  writer.Begin(sl_plan_desc_t{});
  writer.Reduce(SendBlock(4), SL_STEP_B_RAW, Inbox(3), SendBlock(4), ScratchBlock(1), Outbox(5));
  const sl_step_t& step = builder.steps.at(0);
  EXPECT_EQ(step.flags, SL_STEP_B_RAW);
  EXPECT_EQ(step.a.buffer, SL_BUFFER_INBOX);
  EXPECT_EQ(step.a.peer, 3);
  EXPECT_EQ(step.b.block, 4u);
  EXPECT_EQ(step.dst.buffer, SL_BUFFER_SCRATCH);
  EXPECT_EQ(step.dst2.peer, 5);
  EXPECT_EQ(step.peer, -1);
}

TEST(PlanWriter, KeepsTheFirstErrorAndAddsNothingAfterIt) {
  for (size_t fail_at = 0; fail_at < 3; ++fail_at) {
    sl_plan_builder_t builder;
    builder.fail_at = fail_at;
    PlanWriter writer(&kRecorder, &builder);
    writer.Begin(sl_plan_desc_t{});
    for (int i = 0; i < 3; ++i) writer.Put(3, SendBlock(0));
    writer.NextLane(1);
    EXPECT_EQ(writer.status(), SL_ERR_INVALID);
    EXPECT_EQ(builder.calls, fail_at + 1);
  }
}

}  // namespace
}  // namespace sl

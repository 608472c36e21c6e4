// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/plan.h"

#include <gtest/gtest.h>

#include <functional>

namespace sl::kernel {
namespace {

constexpr sl_operand_t kNothing{SL_BUFFER_NONE, 0, 0, -1};
constexpr sl_operand_t kSend0{SL_BUFFER_SEND, 0, 0, -1};
constexpr sl_operand_t kRecv1{SL_BUFFER_RECV, 1, 0, -1};
constexpr sl_operand_t kIn2{SL_BUFFER_INBOX, 0, 0, 2};
constexpr sl_operand_t kOut2{SL_BUFFER_OUTBOX, 0, 0, 2};

// Rank 1 of 4; 100 int32 are reduced in blocks of 32, chunks of 16.
PlanFrame Frame() {
  PlanFrame frame{1, 4, 2, 64, 8, {}};
  frame.op.kind = SL_OP_ALL_REDUCE;
  frame.op.datatype = SL_INT32;
  frame.op.root = -1;
  frame.op.peer = -1;
  frame.op.count = 100;
  return frame;
}

sl_plan_desc_t Desc() {
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = 4;
  desc.chunk = 16;
  desc.rounds = 2;
  desc.send = {32, 32, 100};
  desc.recv = {32, 32, 100};
  return desc;
}

sl_step_t Step(uint32_t kind) {
  sl_step_t step{};
  step.struct_size = sizeof(step);
  step.kind = kind;
  step.peer = 2;
  step.shape = kSend0;
  if (kind == SL_STEP_COPY || kind == SL_STEP_REDUCE) {
    step.a = kSend0;
    step.dst = kRecv1;
  }
  if (kind == SL_STEP_REPEAT) {
    step.length = 1;
    step.count = 3;
  }
  return step;
}

std::string DescError(const std::function<void(PlanFrame*, sl_plan_desc_t*)>& change) {
  PlanFrame frame = Frame();
  sl_plan_desc_t desc = Desc();
  change(&frame, &desc);
  PlanBuilder builder(frame);
  EXPECT_FALSE(builder.Describe(desc).ok());
  return builder.Finish().status().message();
}

std::string StepError(uint32_t kind, const std::function<void(sl_step_t*)>& change) {
  PlanBuilder builder(Frame());
  EXPECT_TRUE(builder.Describe(Desc()).ok());
  EXPECT_TRUE(builder.BeginLane().ok());
  EXPECT_TRUE(builder.AddStep(Step(SL_STEP_RESERVE)).ok());
  sl_step_t step = Step(kind);
  change(&step);
  const Status status = builder.AddStep(step);
  EXPECT_EQ(status.code(), SL_ERR_INVALID);
  // A later good step changes nothing.
  EXPECT_TRUE(builder.AddStep(Step(SL_STEP_PUT)).ok());
  EXPECT_EQ(builder.Finish().status().message(), status.message());
  return status.message();
}

TEST(PlanBuilder, MakesAPlan) {
  PlanBuilder builder(Frame());
  const sl_plan_builder_ops_t* ops = PlanBuilder::Ops();
  const sl_plan_desc_t desc = Desc();
  ASSERT_EQ(ops->describe(builder.handle(), &desc), SL_OK);
  ASSERT_EQ(ops->begin_lane(builder.handle()), SL_OK);
  const sl_step_t reserve = Step(SL_STEP_RESERVE);
  sl_step_t reduce = Step(SL_STEP_REDUCE);
  reduce.b = kIn2;
  reduce.dst2 = kOut2;
  reduce.flags = SL_STEP_A_RAW | SL_STEP_FINAL;
  const sl_step_t repeat = Step(SL_STEP_REPEAT);
  sl_step_t release = Step(SL_STEP_RELEASE);
  release.shape = {SL_BUFFER_RECV, 3, -1, -1};
  for (const sl_step_t& step : {reserve, reduce, repeat, release}) {
    ASSERT_EQ(ops->add_step(builder.handle(), &step), SL_OK);
  }
  ASSERT_EQ(ops->begin_lane(builder.handle()), SL_OK);
  sl_step_t wait = Step(SL_STEP_WAIT);
  wait.peer = 0;
  wait.lane = 1;
  ASSERT_EQ(ops->add_step(builder.handle(), &wait), SL_OK);

  auto result = builder.Finish();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Plan& plan = *result.value();
  EXPECT_EQ(plan.lane_count(), 2u);
  EXPECT_EQ(plan.lane(0).size(), 4u);
  EXPECT_EQ(plan.lane(1).size(), 1u);
  EXPECT_TRUE(plan.has_reduce());
  ASSERT_EQ(plan.links().size(), 2u);
  EXPECT_EQ(plan.links()[0].peer, 2u);
  EXPECT_EQ(plan.links()[0].send_lane, 0u);
  EXPECT_EQ(plan.links()[0].recv_lane, 0u);
  EXPECT_EQ(plan.links()[1].lane, 1u);
  EXPECT_EQ(plan.links()[1].recv_lane, 1u);
  EXPECT_EQ(plan.links()[1].send_lane, kNoLink);
  EXPECT_EQ(plan.lane(0)[1].b_link, 0u);
  EXPECT_EQ(plan.ToText(),
            "plan of rank 1 of 4: 2 rounds of 16 elements of 4 bytes, blocks modulo 4\n"
            "  send     100 elements, blocks of 32 every 32\n"
            "  recv     100 elements, blocks of 32 every 32\n"
            "lane 0\n"
            "   0  reserve  rank 2  | send[0]\n"
            "   1  reduce   recv[1], out(2) <- send[0] raw op in(2), final  | send[0]\n"
            "   2  repeat   the next 1 steps 3 times\n"
            "   3    release  rank 2  | recv[3 -1i]\n"
            "lane 1\n"
            "   0  wait     rank 0 link lane 1  | send[0]\n");
}

TEST(PlanBuilder, RefusesWrongFrames) {
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->struct_size = 8; }),
            "plan of rank 1: desc.struct_size is 8, wanted at least 112");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->block_modulus = 0; }),
            "plan of rank 1: block_modulus is 0, it must be at least 1");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->chunk = 0; }),
            "plan of rank 1: chunk is 0 although there are rounds");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->rounds = 0; }),
            "plan of rank 1: rounds is 0, so that nothing is done about 100 elements; it must be at least 1");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->chunk = 17; }),
            "plan of rank 1: chunk of 17 elements of 4 bytes exceeds a link's 64 bytes");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->rounds = UINT64_MAX; }),
            "plan of rank 1: 18446744073709551615 rounds of 16 elements are too many");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->recv.total = 101; }),
            "plan of rank 1: recv.total 101 exceeds the buffer's 100 elements");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->scratch.total = 1; }),
            "plan of rank 1: scratch.total 1 exceeds the buffer's 0 elements");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->send.stride = uint64_t{1} << 60; }),
            "plan of rank 1: send.stride 1152921504606846976 is too large");
  EXPECT_EQ(DescError([](PlanFrame*, sl_plan_desc_t* desc) { desc->credits = 9; }),
            "plan of rank 1: credits: the plan needs links of 9 slots, these have 8");
  EXPECT_EQ(DescError([](PlanFrame* frame, sl_plan_desc_t*) { frame->op.datatype = 77; }),
            "plan of rank 1: operation has unknown data type 77");
}

TEST(PlanBuilder, TakesAPlanWithoutRoundsForNoElements) {
  PlanFrame frame = Frame();
  frame.op.count = 0;
  sl_plan_desc_t desc = Desc();
  desc.rounds = 0;
  desc.send = desc.recv = {};
  PlanBuilder builder(frame);
  EXPECT_TRUE(builder.Describe(desc).ok()) << builder.error().message();
}

TEST(PlanBuilder, RefusesPlansWithoutBounds) {
  PlanBuilder builder(Frame());
  ASSERT_TRUE(builder.Describe(Desc()).ok());
  ASSERT_TRUE(builder.BeginLane().ok());
  const sl_step_t step = Step(SL_STEP_RESERVE);
  size_t taken = 1;  // the lane
  while (builder.AddStep(step).ok()) ++taken;
  EXPECT_EQ(taken, kMostPlanSteps);
  EXPECT_EQ(builder.BeginLane().code(), SL_ERR_INVALID);
  EXPECT_EQ(builder.Finish().status().message(),
            "plan of rank 1 lane 0 step 1048575: lanes and steps are more than 1048576; let steps repeat with strides");
}

TEST(PlanBuilder, RefusesWrongSteps) {
  EXPECT_EQ(StepError(SL_STEP_WAIT, [](sl_step_t* step) { step->struct_size = 0; }),
            "plan of rank 1 lane 0 step 1: step.struct_size is 0, wanted at least 112");
  EXPECT_EQ(StepError(SL_STEP_WAIT, [](sl_step_t* step) { step->peer = 4; }),
            "plan of rank 1 lane 0 step 1: peer 4 is not a rank of 4");
  EXPECT_EQ(StepError(SL_STEP_PUT, [](sl_step_t* step) { step->peer = -1; }),
            "plan of rank 1 lane 0 step 1: peer -1 is not a rank of 4");
  EXPECT_EQ(StepError(SL_STEP_RESERVE, [](sl_step_t* step) { step->peer = 1; }),
            "plan of rank 1 lane 0 step 1: peer 1 is this rank itself");
  EXPECT_EQ(StepError(SL_STEP_RELEASE, [](sl_step_t* step) { step->lane = 2; }),
            "plan of rank 1 lane 0 step 1: lane 2: links have 2 lanes");
  EXPECT_EQ(StepError(SL_STEP_LAUNCH, [](sl_step_t*) {}), "plan of rank 1 lane 0 step 1: kind 7 (launch)");
  EXPECT_EQ(StepError(99, [](sl_step_t*) {}), "plan of rank 1 lane 0 step 1: kind 99 (unknown kind)");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->flags = SL_STEP_FINAL; }),
            "plan of rank 1 lane 0 step 1: copy: flags 0x4 are not for this kind");
  EXPECT_EQ(StepError(SL_STEP_REDUCE, [](sl_step_t* step) { step->flags = 8; }),
            "plan of rank 1 lane 0 step 1: reduce: flags 0x8 are not for this kind");
  EXPECT_EQ(StepError(SL_STEP_WAIT, [](sl_step_t* step) { step->shape = kIn2; }),
            "plan of rank 1 lane 0 step 1: wait: shape.buffer 4 is not send, recv or scratch");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->a = kNothing; }),
            "plan of rank 1 lane 0 step 1: copy: a.buffer 0 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->a = kOut2; }),
            "plan of rank 1 lane 0 step 1: copy: a.buffer 5 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->dst = kSend0; }),
            "plan of rank 1 lane 0 step 1: copy: dst.buffer 1 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_REDUCE, [](sl_step_t* step) { step->dst2 = kIn2; }),
            "plan of rank 1 lane 0 step 1: reduce: dst2.buffer 4 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->b = kSend0; }),
            "plan of rank 1 lane 0 step 1: copy: b.buffer 1 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_RELEASE, [](sl_step_t* step) { step->a = kSend0; }),
            "plan of rank 1 lane 0 step 1: release: a.buffer 1 is not possible here");
  EXPECT_EQ(StepError(SL_STEP_COPY, [](sl_step_t* step) { step->a.block = 4; }),
            "plan of rank 1 lane 0 step 1: copy: a.block 4 is not below block_modulus 4");
  EXPECT_EQ(StepError(SL_STEP_REPEAT, [](sl_step_t* step) { step->length = 0; }),
            "plan of rank 1 lane 0 step 1: repeat of length 0, it must be at least 1");
}

TEST(PlanBuilder, RefusesPartsThatLeaveTheirBuffer) {
  // Block 3 of recv has 4 elements, block 0 of send gives 32.
  EXPECT_EQ(
      StepError(SL_STEP_COPY, [](sl_step_t* step) { step->dst.block = 3; }),
      "plan of rank 1 lane 0 step 1: copy: dst block 3 at repetition 0: 32 elements from 96 exceed its total 100");
  EXPECT_EQ(StepError(SL_STEP_COPY,
                      [](sl_step_t* step) {
                        step->dst = {SL_BUFFER_SCRATCH, 0, 0, -1};
                      }),
            "plan of rank 1 lane 0 step 1: copy: dst block 0 at repetition 0: 32 elements from 0 exceed its total 0");
}

TEST(PlanBuilder, ChecksBoundsAtEveryRepetition) {
  PlanBuilder builder(Frame());
  ASSERT_TRUE(builder.Describe(Desc()).ok());
  ASSERT_TRUE(builder.BeginLane().ok());
  ASSERT_TRUE(builder.AddStep(Step(SL_STEP_REPEAT)).ok());
  sl_step_t copy = Step(SL_STEP_COPY);
  copy.dst.block_step = 1;
  EXPECT_EQ(
      builder.AddStep(copy).message(),
      "plan of rank 1 lane 0 step 1: copy: dst block 3 at repetition 2: 32 elements from 96 exceed its total 100");
}

TEST(PlanBuilder, RefusesRepeatsThatAreNestedOrOpen) {
  PlanBuilder nested(Frame());
  ASSERT_TRUE(nested.Describe(Desc()).ok());
  ASSERT_TRUE(nested.BeginLane().ok());
  ASSERT_TRUE(nested.AddStep(Step(SL_STEP_REPEAT)).ok());
  EXPECT_EQ(nested.AddStep(Step(SL_STEP_REPEAT)).message(), "plan of rank 1 lane 0 step 1: repeat inside a repeat");

  PlanBuilder open(Frame());
  ASSERT_TRUE(open.Describe(Desc()).ok());
  ASSERT_TRUE(open.BeginLane().ok());
  ASSERT_TRUE(open.AddStep(Step(SL_STEP_REPEAT)).ok());
  EXPECT_EQ(open.Finish().status().message(), "plan of rank 1 lane 0 step 1: ends 1 steps inside a repeat");
}

TEST(PlanBuilder, GivesEachLinkDirectionToOneLane) {
  PlanBuilder builder(Frame());
  ASSERT_TRUE(builder.Describe(Desc()).ok());
  ASSERT_TRUE(builder.BeginLane().ok());
  ASSERT_TRUE(builder.AddStep(Step(SL_STEP_PUT)).ok());
  ASSERT_TRUE(builder.BeginLane().ok());
  EXPECT_TRUE(builder.AddStep(Step(SL_STEP_WAIT)).ok());
  EXPECT_EQ(builder.AddStep(Step(SL_STEP_PUT)).message(),
            "plan of rank 1 lane 1 step 1: lane 0 of the plan already sends to rank 2 on link lane 0");
}

TEST(PlanBuilder, RefusesReductionsWhereThereAreNone) {
  PlanFrame frame = Frame();
  frame.op.kind = SL_OP_ALL_TO_ALL;
  PlanBuilder builder(frame);
  ASSERT_TRUE(builder.Describe(Desc()).ok());
  ASSERT_TRUE(builder.BeginLane().ok());
  EXPECT_EQ(builder.AddStep(Step(SL_STEP_REDUCE)).message(),
            "plan of rank 1 lane 0 step 0: reduce in all_to_all, which has no reduction");
}

TEST(PlanBuilder, WantsCallsInOrder) {
  PlanBuilder early(Frame());
  EXPECT_EQ(early.BeginLane().message(), "plan of rank 1: begin_lane before describe");
  PlanBuilder laneless(Frame());
  ASSERT_TRUE(laneless.Describe(Desc()).ok());
  EXPECT_EQ(laneless.AddStep(Step(SL_STEP_PUT)).message(), "plan of rank 1: add_step before begin_lane");
  PlanBuilder twice(Frame());
  ASSERT_TRUE(twice.Describe(Desc()).ok());
  EXPECT_EQ(twice.Describe(Desc()).message(), "plan of rank 1: described twice");
  PlanBuilder nothing(Frame());
  EXPECT_EQ(nothing.Finish().status().message(), "plan of rank 1: ends before describe");
}

}  // namespace
}  // namespace sl::kernel

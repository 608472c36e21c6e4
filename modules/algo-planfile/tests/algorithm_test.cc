// SPDX-License-Identifier: Apache-2.0
//
// Which plan serves what, its cost, and what the builder is told. What plans compute is tested with the engine that
// runs them (python/starling_plans/tests).
#include "modules/algo-planfile/algorithm.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

struct sl_plan_builder_t {
  sl_plan_desc_t desc{};
  std::vector<sl_step_t> steps;
  size_t lanes = 0;
};

namespace sl::algo_planfile {
namespace {

sl_status_t RecordDesc(sl_plan_builder_t* builder, const sl_plan_desc_t* desc) {
  builder->desc = *desc;
  return SL_OK;
}
sl_status_t RecordLane(sl_plan_builder_t* builder) {
  ++builder->lanes;
  return SL_OK;
}
sl_status_t RecordStep(sl_plan_builder_t* builder, const sl_step_t* step) {
  builder->steps.push_back(*step);
  return step->kind == SL_STEP_RELEASE ? SL_ERR_INVALID : SL_OK;
}
constexpr sl_plan_builder_ops_t kRecorder = {sizeof(kRecorder), 0, RecordDesc, RecordLane, RecordStep};

PlanFile PlanOf(const std::string& collective, const std::string& head, const std::string& steps = "") {
  const Result<PlanFile> plan =
      ParsePlan("starling-plan 1\nname " + collective + "-plan\ncollective " + collective + "\nranks 3\n" + head +
                    "\nrank 0\nlane 0\n" + steps + "\nrank 1\nrank 2\n",
                "a.plan");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.value();
}

sl_op_t OpOf(sl_op_kind_t kind, uint64_t count, int32_t root = -1) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_FLOAT32;
  op.count = count;
  op.root = root;
  op.peer = -1;
  return op;
}

sl_comm_shape_t ShapeOf(uint32_t size = 3) {
  sl_comm_shape_t shape{};
  shape.struct_size = sizeof(shape);
  shape.size = size;
  shape.link_chunk_bytes = 1024;
  shape.lanes = 1;
  return shape;
}

TEST(FindPlan, TakesTheFirstThatServesAndElseSaysWhyNot) {
  std::vector<PlanFile> plans;
  std::string reason;
  EXPECT_EQ(FindPlan(plans, OpOf(SL_OP_ALL_REDUCE, 4), ShapeOf(), &reason), nullptr);
  EXPECT_EQ(reason, "no plan files: set the option `paths`");
  plans.push_back(PlanOf("all_gather", ""));
  plans.push_back(PlanOf("all_reduce", "bytes 64 128"));
  plans.push_back(PlanOf("all_reduce", "bytes 0 1024"));
  EXPECT_EQ(FindPlan(plans, OpOf(SL_OP_ALL_REDUCE, 16), ShapeOf(), &reason), &plans[1]);
  EXPECT_EQ(FindPlan(plans, OpOf(SL_OP_ALL_REDUCE, 15), ShapeOf(), &reason), &plans[2]);
  EXPECT_EQ(FindPlan(plans, OpOf(SL_OP_ALL_REDUCE, 1000), ShapeOf(), &reason), nullptr);
  EXPECT_EQ(reason, "plan all_reduce-plan is for 64 to 128 bytes");
  EXPECT_EQ(FindPlan(plans, OpOf(SL_OP_ALL_REDUCE, 16), ShapeOf(4), &reason), nullptr);
  EXPECT_EQ(reason, "plan all_reduce-plan is for 3 ranks");
}

TEST(FindPlan, KeepsToWhatLinksHave) {
  const sl_op_t op = OpOf(SL_OP_ALL_REDUCE, 4);
  sl_comm_shape_t shape = ShapeOf();
  EXPECT_EQ(WhyNot(PlanOf("all_reduce", "", "lane 1"), op, shape), "plan all_reduce-plan is for links of 2 lanes");
  EXPECT_EQ(WhyNot(PlanOf("all_reduce", "credits 3"), op, shape), "") << "how many slots there are is not known yet";
  shape.link_slots = 2;
  EXPECT_EQ(WhyNot(PlanOf("all_reduce", "credits 3"), op, shape), "plan all_reduce-plan is for links of 3 slots");
}

TEST(WritePlan, CutsElementsIntoBlocksAndChunks) {
  sl_plan_builder_t builder;
  const PlanFile plan = PlanOf("all_reduce", "blocks 3\nscratch 5", "put 1 = send[2]");
  ASSERT_TRUE(WritePlan(plan, OpOf(SL_OP_ALL_REDUCE, 1000), ShapeOf(), &kRecorder, &builder).ok());
  EXPECT_EQ(builder.desc.send.stride, 336u) << "a third of the elements, in whole grains";
  EXPECT_EQ(builder.desc.send.total, 1000u);
  EXPECT_EQ(builder.desc.chunk, 256u) << "what a link carries";
  EXPECT_EQ(builder.desc.rounds, 2u);
  EXPECT_EQ(builder.desc.scratch_bytes, 5u * 336 * 4);
  EXPECT_EQ(builder.desc.block_modulus, 5u);
  EXPECT_EQ(builder.lanes, 1u);
  EXPECT_EQ(builder.steps.size(), 1u);
}

TEST(WritePlan, GivesEveryRankItsBlockOfABufferOfBlocks) {
  sl_plan_builder_t builder;
  ASSERT_TRUE(
      WritePlan(PlanOf("all_gather", "chunk_bytes 100"), OpOf(SL_OP_ALL_GATHER, 50), ShapeOf(), &kRecorder, &builder)
          .ok());
  EXPECT_EQ(builder.desc.send.total, 50u);
  EXPECT_EQ(builder.desc.recv.stride, 50u);
  EXPECT_EQ(builder.desc.recv.total, 150u);
  EXPECT_EQ(builder.desc.chunk, 25u);
}

TEST(WritePlan, TurnsRanksForAnotherRoot) {
  const PlanFile plan = PlanOf("gather", "root 0", "wait 1 of recv[1,1]\ncopy recv[2] = inbox[2]");
  sl_comm_shape_t shape = ShapeOf();
  shape.rank = 2;
  sl_plan_builder_t root;
  ASSERT_TRUE(WritePlan(plan, OpOf(SL_OP_GATHER, 4, 2), shape, &kRecorder, &root).ok());
  ASSERT_EQ(root.steps.size(), 2u);
  EXPECT_EQ(root.steps[0].peer, 0);
  EXPECT_EQ(root.steps[0].shape.block, 0u) << "the block of rank 0";
  EXPECT_EQ(root.steps[1].a.peer, 1);
  EXPECT_EQ(root.steps[1].dst.block, 1u);
  EXPECT_EQ(root.desc.recv.total, 12u);
  shape.rank = 0;
  sl_plan_builder_t other;
  ASSERT_TRUE(WritePlan(plan, OpOf(SL_OP_GATHER, 4, 2), shape, &kRecorder, &other).ok());
  EXPECT_TRUE(other.steps.empty());
  EXPECT_EQ(other.desc.recv.total, 0u);
}

TEST(WritePlan, MovesNothingWhenThereIsNothing) {
  sl_plan_builder_t builder;
  ASSERT_TRUE(
      WritePlan(PlanOf("all_reduce", "blocks 3"), OpOf(SL_OP_ALL_REDUCE, 0), ShapeOf(), &kRecorder, &builder).ok());
  EXPECT_EQ(builder.desc.rounds, 0u);
}

TEST(WritePlan, EndsWithWhatTheBuilderRefuses) {
  sl_plan_builder_t builder;
  const PlanFile plan = PlanOf("all_reduce", "", "release 1 of send[0]\nwait 1 of send[0]");
  EXPECT_EQ(WritePlan(plan, OpOf(SL_OP_ALL_REDUCE, 4), ShapeOf(), &kRecorder, &builder).code(), SL_ERR_INVALID);
  EXPECT_EQ(builder.steps.size(), 1u);
}

TEST(TimeOf, CountsWaitsChunksAndBytes) {
  const PlanFile plan = PlanOf("all_reduce", "", "repeat 2\nwait 1 of send[0]\nend\nput 1 of send[0]");
  const CostOptions options{1000, 1'000'000'000};
  EXPECT_EQ(TimeOf(plan, OpOf(SL_OP_ALL_REDUCE, 1), ShapeOf(), options), 2 * 1000u + 150 + 4);
  EXPECT_EQ(TimeOf(plan, OpOf(SL_OP_ALL_REDUCE, 512), ShapeOf(), options), 2 * (2 * 1000u + 150) + 2048);
}

}  // namespace
}  // namespace sl::algo_planfile

// SPDX-License-Identifier: Apache-2.0
//
// The parts plans are made of: cutting, writing, costs. What plans compute is tested with the engine that runs them
// (tests/integration/plans_test.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "modules/algo-ring/algorithm.h"

struct sl_plan_builder_t {
  sl_plan_desc_t desc{};
  std::vector<sl_step_t> steps;
  size_t fail_at = SIZE_MAX;
};

namespace sl::algo_ring {
namespace {

sl_status_t RecordDesc(sl_plan_builder_t* builder, const sl_plan_desc_t* desc) {
  builder->desc = *desc;
  return SL_OK;
}
sl_status_t RecordLane(sl_plan_builder_t*) { return SL_OK; }
sl_status_t RecordStep(sl_plan_builder_t* builder, const sl_step_t* step) {
  if (builder->steps.size() == builder->fail_at) return SL_ERR_INVALID;
  builder->steps.push_back(*step);
  return SL_OK;
}
constexpr sl_plan_builder_ops_t kRecorder = {sizeof(kRecorder), 0, RecordDesc, RecordLane, RecordStep};

constexpr Shape kShape = {1, 4, 1 << 17, 2, 8, true, 4};

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

uint64_t TimeOf(std::unique_ptr<Family> family, const Shape& shape, const sl_op_t& op) {
  const sl_algorithm_t algorithm(nullptr, std::move(family), shape, CostOptions{});
  sl_estimate_t estimate{};
  return algorithm.Estimate(op, &estimate) == SL_OK ? estimate.time_ns : UINT64_MAX;
}

TEST(Pieces, CoverEveryBlockWithChunksThatFit) {
  for (uint64_t chunk_bytes : {8u, 64u, 100u, 4096u, 131072u}) {
    for (uint64_t element_bytes : {1u, 2u, 4u, 8u}) {
      for (uint64_t length : {0u, 1u, 15u, 16u, 17u, 1000u, 32768u, 32769u, 1000003u}) {
        Shape shape = kShape;
        shape.chunk_bytes = chunk_bytes;
        for (const Pieces& pieces :
             {CutBlock(shape, length, element_bytes), CutPipelined(shape, length, element_bytes, 16)}) {
          EXPECT_LE(pieces.chunk * element_bytes, chunk_bytes);
          EXPECT_GE(pieces.chunk * pieces.rounds, length);
          EXPECT_TRUE(pieces.rounds == 0 || pieces.chunk * (pieces.rounds - 1) < length);
          EXPECT_TRUE(pieces.rounds <= 1 || chunk_bytes / element_bytes < kGrain || pieces.chunk % kGrain == 0);
        }
      }
    }
  }
}

TEST(Pieces, ArePipelinedOnlyWhereChunksStayLarge) {
  EXPECT_EQ(CutPipelined(kShape, 16, 4, 16).rounds, 1u);
  EXPECT_EQ(CutPipelined(kShape, 4096, 4, 16).rounds, 2u);
  EXPECT_EQ(CutPipelined(kShape, 32768, 4, 16).rounds, 16u);
  EXPECT_EQ(CutBlock(kShape, 32768, 4).rounds, 1u);
}

TEST(Pieces, SplitIntoBlocksOfWholeGrains) {
  EXPECT_EQ(BlockOf(0, 4), 0u);
  EXPECT_EQ(BlockOf(1, 4), kGrain);
  EXPECT_EQ(BlockOf(64, 4), 16u);
  EXPECT_EQ(BlockOf(65, 4), 32u);
}

TEST(Shape, KnowsHowRanksLieOnHosts) {
  const char* hosts[] = {"a", "b", "a", "a"};
  sl_comm_shape_t shape{};
  shape.size = 4;
  shape.host_of = hosts;
  EXPECT_FALSE(Shape::Of(shape).one_host);
  EXPECT_EQ(Shape::Of(shape).ranks_per_host, 3u);
  shape.host_of = nullptr;
  EXPECT_TRUE(Shape::Of(shape).one_host);
}

TEST(Ring, DeclaresTheTwoSlotsItNeeds) {
  sl_plan_builder_t builder;
  const sl_algorithm_t ring(nullptr, MakeRing(kShape), kShape, CostOptions{});
  ASSERT_TRUE(ring.Plan(OpOf(SL_OP_ALL_REDUCE, 1000), &kRecorder, &builder).ok());
  EXPECT_EQ(builder.desc.credits, 2u);
  ASSERT_TRUE(ring.Plan(OpOf(SL_OP_BROADCAST, 1000, 2), &kRecorder, &builder).ok());
  EXPECT_EQ(builder.desc.credits, 1u);
  Shape one_slot = kShape;
  one_slot.link_slots = 1;
  EXPECT_EQ(TimeOf(MakeRing(one_slot), one_slot, OpOf(SL_OP_ALL_REDUCE, 1000)), UINT64_MAX);
  EXPECT_NE(TimeOf(MakeRing(one_slot), one_slot, OpOf(SL_OP_BROADCAST, 1000, 2)), UINT64_MAX);
}

TEST(Cost, PrefersFewHopsForLittleAndFewBytesForMuch) {
  Shape shape = kShape;
  shape.size = 16;
  const sl_op_t little = OpOf(SL_OP_ALL_REDUCE, 2);
  const sl_op_t much = OpOf(SL_OP_ALL_REDUCE, 1 << 24);
  EXPECT_LT(TimeOf(MakeTree(shape), shape, little), TimeOf(MakeRing(shape), shape, little));
  EXPECT_LT(TimeOf(MakeRing(shape), shape, much), TimeOf(MakeTree(shape), shape, much));
  const sl_op_t little_from_root = OpOf(SL_OP_BROADCAST, 2, 0);
  const sl_op_t much_from_root = OpOf(SL_OP_BROADCAST, 1 << 24, 0);
  EXPECT_LT(TimeOf(MakeTree(shape), shape, little_from_root), TimeOf(MakeRing(shape), shape, little_from_root));
  EXPECT_LT(TimeOf(MakeRing(shape), shape, much_from_root), TimeOf(MakeTree(shape), shape, much_from_root));
}

// Between hosts, ranks of a host share its network, and a ring crosses it once.
TEST(Cost, PrefersRingsBetweenHostsForMuch) {
  Shape shape = kShape;
  shape.size = 16;
  shape.one_host = false;
  shape.ranks_per_host = 8;
  const sl_op_t much = OpOf(SL_OP_ALL_GATHER, 1 << 22);
  EXPECT_LT(TimeOf(MakeRing(shape), shape, much), TimeOf(MakeDirect(shape), shape, much));
}

TEST(Direct, GivesUpBeyondItsRanks) {
  Shape shape = kShape;
  shape.size = 33;
  EXPECT_EQ(TimeOf(MakeDirect(shape), shape, OpOf(SL_OP_ALL_GATHER, 10)), UINT64_MAX);
  EXPECT_NE(TimeOf(MakeDirect(shape), shape, OpOf(SL_OP_ALL_TO_ALL, 10)), UINT64_MAX);
}

TEST(Estimate, SaysWhyNot) {
  const sl_algorithm_t tree(nullptr, MakeTree(kShape), kShape, CostOptions{});
  sl_estimate_t estimate{};
  EXPECT_EQ(tree.Estimate(OpOf(SL_OP_ALL_TO_ALL, 10), &estimate), SL_ERR_UNSUPPORTED);
  EXPECT_EQ(std::string(estimate.reason), "no tree of this operation");
}

}  // namespace
}  // namespace sl::algo_ring

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "modules/checker/tests/fixture.h"
#include "sl_algorithm.h"
#include "sl_device.h"

namespace sl::checker {
namespace {

struct Fake {
  std::function<uint64_t(const sl_op_t&)> time_ns = [](const sl_op_t&) { return 5; };
  std::function<sl_status_t(const sl_plan_builder_ops_t*, sl_plan_builder_t*)> plan;
  sl_status_t estimate_status = SL_OK;
  uint32_t determinism = SL_DETERMINISM_RANK;
  std::vector<sl_copy_t> copies;
  std::vector<sl_part_t> parts;
  bool demand_by_rank = false;
  bool args_elsewhere = false;
  uint32_t described = 0;  // calls that reached the kernel's builder
};
Fake* g_fake = nullptr;
uint64_t g_elsewhere = 0;

sl_algorithm_ops_t FakeOps() {
  sl_algorithm_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.demand = [](sl_instance_t*, const sl_comm_shape_t* shape, sl_demand_t* out) {
    out->symmetric_bytes = g_fake->demand_by_rank ? shape->rank * 64 : 64;
    return SL_OK;
  };
  ops.create = [](sl_instance_t*, const sl_algorithm_env_t*, sl_algorithm_t** out) {
    *out = Below<sl_algorithm_t>(1);
    return SL_OK;
  };
  ops.destroy = [](sl_algorithm_t*) {};
  ops.estimate = [](sl_algorithm_t*, const sl_op_t* op, sl_estimate_t* out) {
    out->determinism = g_fake->determinism;
    out->time_ns = g_fake->time_ns(*op);
    return g_fake->estimate_status;
  };
  ops.plan = [](sl_algorithm_t*, const sl_op_t*, const sl_plan_builder_ops_t* builder_ops, sl_plan_builder_t* builder) {
    return g_fake->plan(builder_ops, builder);
  };
  ops.launch = [](sl_algorithm_t*, const sl_op_t*, void* args, uint32_t, sl_launch_t* out) {
    out->image = Below<sl_image_t>(2);
    out->args = g_fake->args_elsewhere ? &g_elsewhere : args;
    out->args_bytes = 8;
    return SL_OK;
  };
  ops.copies = [](sl_algorithm_t*, const sl_op_t*, sl_copy_t* out, uint32_t capacity, uint32_t* out_count) {
    *out_count = static_cast<uint32_t>(g_fake->copies.size());
    if (*out_count > capacity) return SL_ERR_LIMIT;
    std::copy(g_fake->copies.begin(), g_fake->copies.end(), out);
    return SL_OK;
  };
  ops.parts = [](sl_algorithm_t*, const sl_op_t*, sl_part_t* out, uint32_t* out_count) {
    *out_count = static_cast<uint32_t>(g_fake->parts.size());
    std::copy_n(g_fake->parts.begin(), std::min<size_t>(SL_MOST_PARTS, g_fake->parts.size()), out);
    return SL_OK;
  };
  return ops;
}

sl_plan_builder_ops_t KernelsBuilder() {
  sl_plan_builder_ops_t ops = {};
  ops.struct_size = sizeof ops;
  ops.describe = [](sl_plan_builder_t* builder, const sl_plan_desc_t*) {
    g_fake->described += builder == Below<sl_plan_builder_t>(9);
    return SL_OK;
  };
  ops.begin_lane = [](sl_plan_builder_t*) { return SL_OK; };
  ops.add_step = [](sl_plan_builder_t*, const sl_step_t*) { return SL_OK; };
  return ops;
}

class Algorithm : public CheckerTest {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    below_ = FakeOps();
    Wrap(SL_ALGORITHM_ID, &below_);
    shape_.struct_size = sizeof shape_;
    shape_.size = shape_.local_size = 2;
    sl_algorithm_env_t env = {};
    env.struct_size = sizeof env;
    env.shape = &shape_;
    ASSERT_EQ(a()->create(instance_, &env, &algorithm_), SL_OK);
    step_.struct_size = sizeof step_;
    op_.struct_size = sizeof op_;
    op_.root = op_.peer = -1;
    op_.count = 10;
  }
  void TearDown() override {
    a()->destroy(algorithm_);
    CheckerTest::TearDown();
  }

  sl_status_t Estimate() {
    sl_estimate_t estimate = {};
    estimate.struct_size = sizeof estimate;
    return a()->estimate(algorithm_, &op_, &estimate);
  }

  sl_status_t Plan(std::function<sl_status_t(const sl_plan_builder_ops_t*, sl_plan_builder_t*)> plan) {
    fake_.plan = std::move(plan);
    const sl_plan_builder_ops_t builder = KernelsBuilder();
    return a()->plan(algorithm_, &op_, &builder, Below<sl_plan_builder_t>(9));
  }

  sl_status_t List(std::vector<sl_copy_t> copies) {
    fake_.copies = std::move(copies);
    sl_copy_t room[2] = {};
    uint32_t count = 0;
    return a()->copies(algorithm_, &op_, room, 2, &count);
  }

  sl_status_t Part(std::vector<sl_part_t> parts) {
    fake_.parts = std::move(parts);
    sl_part_t room[SL_MOST_PARTS] = {};
    uint32_t count = 0;
    return a()->parts(algorithm_, &op_, room, &count);
  }

  const sl_algorithm_ops_t* a() const { return ops<sl_algorithm_ops_t>(); }

  Fake fake_;
  sl_algorithm_ops_t below_ = {};
  sl_comm_shape_t shape_ = {};
  sl_algorithm_t* algorithm_ = nullptr;
  sl_op_t op_ = {};
  sl_plan_desc_t desc_ = {sizeof(sl_plan_desc_t), 1, 1, 1, 0, {}, {}, {}, 1, 0};
  sl_step_t step_ = {};
};

TEST_F(Algorithm, SaysNothingWhenAllWordsAreKept) {
  EXPECT_EQ(Estimate(), SL_OK);
  EXPECT_EQ(Estimate(), SL_OK);
  EXPECT_EQ(Plan([&](const sl_plan_builder_ops_t* builder_ops, sl_plan_builder_t* builder) {
              builder_ops->describe(builder, &desc_);
              builder_ops->begin_lane(builder);
              return builder_ops->add_step(builder, &step_);
            }),
            SL_OK);
  EXPECT_EQ(fake_.described, 1u);
  alignas(16) unsigned char args[4096];
  sl_launch_t launch = {};
  launch.struct_size = sizeof launch;
  EXPECT_EQ(a()->launch(algorithm_, &op_, args, sizeof args, &launch), SL_OK);
}

TEST_F(Algorithm, AsksEveryRanksDemand) {
  sl_demand_t demand = {sizeof demand, 0, 0};
  EXPECT_EQ(a()->demand(instance_, &shape_, &demand), SL_OK);
  fake_.demand_by_rank = true;
  EXPECT_EQ(a()->demand(instance_, &shape_, &demand), SL_ERR_INTERNAL);
  ExpectBroken("demand-differs");
}

TEST_F(Algorithm, AsksForEstimatesAgain) {
  uint64_t calls = 0;
  fake_.time_ns = [&](const sl_op_t&) { return ++calls; };
  EXPECT_EQ(Estimate(), SL_ERR_INTERNAL);
  ExpectBroken("estimate-impure");
  op_.count = 11;
  uint64_t price = 7;
  fake_.time_ns = [&](const sl_op_t&) { return price; };
  EXPECT_EQ(Estimate(), SL_OK);
  price = 8;
  EXPECT_EQ(Estimate(), SL_ERR_INTERNAL) << "it has forgotten what it said";
  ExpectBroken("estimate-impure");
  op_.count = 12;
  fake_.time_ns = [](const sl_op_t& op) { return reinterpret_cast<uintptr_t>(op.recv) % 16 == 0 ? 1 : 2; };
  EXPECT_EQ(Estimate(), SL_ERR_INTERNAL);
  ExpectBroken("estimate-looks");
}

TEST_F(Algorithm, LooksAtEstimates) {
  fake_.determinism = 9;
  EXPECT_EQ(Estimate(), SL_ERR_INTERNAL);
  ExpectBroken("estimate-facts");
  op_.count = 11;
  fake_.determinism = 0;
  fake_.estimate_status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(Estimate(), SL_ERR_INTERNAL);
  ExpectBroken("estimate-reason");
  op_.kind = SL_OP_KIND_COUNT;
  EXPECT_EQ(Estimate(), SL_ERR_INVALID);
  ExpectBroken("type-range");
}

TEST_F(Algorithm, WatchesTheOrderOfPlanning) {
  EXPECT_EQ(Plan([](const auto*, auto*) { return SL_OK; }), SL_ERR_INTERNAL);
  ExpectBroken("plan-frame");
  Plan([&](const sl_plan_builder_ops_t* builder_ops, sl_plan_builder_t* builder) {
    EXPECT_EQ(builder_ops->describe(builder, &desc_), SL_OK);
    EXPECT_EQ(builder_ops->describe(builder, &desc_), SL_ERR_INTERNAL);
    ExpectBroken("plan-frame");
    EXPECT_EQ(builder_ops->add_step(builder, &step_), SL_ERR_INTERNAL);
    ExpectBroken("plan-lane");
    return SL_OK;
  });
  sl_plan_builder_t* kept = nullptr;
  const sl_plan_builder_ops_t* kept_ops = nullptr;
  Plan([&](const sl_plan_builder_ops_t* builder_ops, sl_plan_builder_t* builder) {
    kept = builder;
    kept_ops = builder_ops;
    return builder_ops->describe(builder, &desc_);
  });
  EXPECT_EQ(kept_ops->begin_lane(kept), SL_ERR_STATE);
  ExpectBroken("used-after-end");
}

TEST_F(Algorithm, LooksAtTheRoomForArgumentsAndItsUse) {
  alignas(16) unsigned char args[4112];
  sl_launch_t launch = {};
  launch.struct_size = sizeof launch;
  EXPECT_EQ(a()->launch(algorithm_, &op_, args, 64, &launch), SL_ERR_INVALID);
  ExpectBroken("launch-room");
  EXPECT_EQ(a()->launch(algorithm_, &op_, args + 8, 4096, &launch), SL_ERR_INVALID);
  ExpectBroken("launch-room");
  fake_.args_elsewhere = true;
  EXPECT_EQ(a()->launch(algorithm_, &op_, args, 4096, &launch), SL_ERR_INTERNAL);
  ExpectBroken("launch-facts");
}

// An all-gather of 10 bytes from each of two ranks, pushed.
constexpr sl_copy_t kRightCopy = {sizeof(sl_copy_t), 0, 0, SL_BUFFER_SEND, 0, 1, SL_BUFFER_RECV, 10, 10};
constexpr sl_copy_t kEmptyCopy = {sizeof(sl_copy_t), 1, 9, 9, 0, 9, 9, 0, 0};

TEST_F(Algorithm, LooksAtCopies) {
  op_.kind = SL_OP_ALL_GATHER;
  op_.symmetric = SL_OP_RECV_SYMMETRIC;
  EXPECT_EQ(List({kRightCopy, kEmptyCopy}), SL_OK);
  EXPECT_EQ(List({kRightCopy, kRightCopy, kRightCopy}), SL_ERR_LIMIT) << "the caller comes again";
  EXPECT_EQ(List({kEmptyCopy, kRightCopy}), SL_ERR_INTERNAL) << "phases ascend";
  ExpectBroken("copy-facts");
  op_.symmetric = SL_OP_SEND_SYMMETRIC;
  EXPECT_EQ(List({kRightCopy}), SL_ERR_INTERNAL);
  ExpectBroken("copy-facts");
}

// Of one rule only the first few breaches are told, all are counted and refused.
TEST_F(Algorithm, RefusesEveryWrongCopy) {
  op_.kind = SL_OP_ALL_GATHER;
  op_.symmetric = SL_OP_RECV_SYMMETRIC;
  const auto expect_wrong = [&](auto change) {
    sl_copy_t wrong = kRightCopy;
    change(&wrong);
    EXPECT_EQ(List({wrong}), SL_ERR_INTERNAL);
    if (!lines_.empty()) lines_.resize(1), ExpectBroken("copy-facts");
  };
  expect_wrong([](sl_copy_t* copy) { copy->phase = SL_COPY_PHASES; });
  expect_wrong([](sl_copy_t* copy) { copy->to_rank = 2; });
  expect_wrong([](sl_copy_t* copy) { copy->from_rank = 1; });
  expect_wrong([](sl_copy_t* copy) { copy->from_buffer = SL_BUFFER_SCRATCH; });
  expect_wrong([](sl_copy_t* copy) { copy->to_buffer = SL_BUFFER_SEND; });
  expect_wrong([](sl_copy_t* copy) { copy->to = 11; });
  expect_wrong([](sl_copy_t* copy) { copy->from = UINT64_MAX; });
  expect_wrong([](sl_copy_t* copy) { copy->bytes = 11; });
}

// Of an all-reduce of 10 bytes over two ranks, the first part, of rank 0.
constexpr sl_part_t kRightPart = {sizeof(sl_part_t), SL_OP_REDUCE_SCATTER, -1, 0, 5,
                                  SL_BUFFER_SEND,    SL_BUFFER_RECV,       0,  0};

TEST_F(Algorithm, LooksAtParts) {
  op_.kind = SL_OP_ALL_REDUCE;
  EXPECT_EQ(Part({kRightPart, kRightPart}), SL_OK);
  EXPECT_EQ(Part({}), SL_ERR_INTERNAL);
  ExpectBroken("part-facts");
  EXPECT_EQ(Part(std::vector<sl_part_t>(SL_MOST_PARTS + 1, kRightPart)), SL_ERR_INTERNAL);
  ExpectBroken("part-facts");
}

TEST_F(Algorithm, RefusesEveryWrongPart) {
  op_.kind = SL_OP_ALL_REDUCE;
  op_.datatype = SL_FLOAT16;
  const auto expect_wrong = [&](auto change) {
    sl_part_t wrong = kRightPart;
    change(&wrong);
    EXPECT_EQ(Part({wrong}), SL_ERR_INTERNAL);
    if (!lines_.empty()) lines_.resize(1), ExpectBroken("part-facts");
  };
  EXPECT_EQ(Part({kRightPart}), SL_OK);
  expect_wrong([](sl_part_t* part) { part->kind = SL_OP_SEND; });
  expect_wrong([](sl_part_t* part) { part->kind = SL_OP_KIND_COUNT; });
  expect_wrong([](sl_part_t* part) { part->root = 2; });
  expect_wrong([](sl_part_t* part) { part->count = 0; });
  expect_wrong([](sl_part_t* part) { part->count = 6; });
  expect_wrong([](sl_part_t* part) { part->send_buffer = SL_BUFFER_SCRATCH; });
  expect_wrong([](sl_part_t* part) { part->recv_buffer = SL_BUFFER_SEND; });
  expect_wrong([](sl_part_t* part) { part->send = 1; });
  expect_wrong([](sl_part_t* part) { part->recv = 12; });
  op_.kind = SL_OP_ALL_GATHER;
  EXPECT_EQ(Part({kRightPart}), SL_ERR_INTERNAL) << "it reduces";
}

}  // namespace
}  // namespace sl::checker

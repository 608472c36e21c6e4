// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/sketch_test_util.h"

#include <gtest/gtest.h>

namespace sl::verify {
namespace {

constexpr uint32_t kLinkLanes = 2;
constexpr uint32_t kChunkBytes = 1 << 20;

sl_step_t Step(uint32_t kind, int32_t peer, sl_operand_t shape, uint32_t lane) {
  sl_step_t step{};
  step.struct_size = sizeof(step);
  step.kind = kind;
  step.peer = peer;
  step.lane = lane;
  step.shape = shape;
  return step;
}

}  // namespace

sl_step_t Wait(int32_t peer, sl_operand_t shape, uint32_t lane) { return Step(SL_STEP_WAIT, peer, shape, lane); }
sl_step_t Reserve(int32_t peer, sl_operand_t shape, uint32_t lane) { return Step(SL_STEP_RESERVE, peer, shape, lane); }
sl_step_t Release(int32_t peer, sl_operand_t shape, uint32_t lane) { return Step(SL_STEP_RELEASE, peer, shape, lane); }

sl_step_t Put(int32_t peer, sl_operand_t shape, sl_operand_t a, uint32_t lane) {
  sl_step_t step = Step(SL_STEP_PUT, peer, shape, lane);
  step.a = a;
  return step;
}

sl_step_t Copy(sl_operand_t a, sl_operand_t dst, sl_operand_t shape, sl_operand_t dst2) {
  sl_step_t step = Step(SL_STEP_COPY, -1, shape, 0);
  step.a = a;
  step.dst = dst;
  step.dst2 = dst2;
  return step;
}

sl_step_t Reduce(uint32_t flags, sl_operand_t a, sl_operand_t b, sl_operand_t dst, sl_operand_t shape) {
  sl_step_t step = Step(SL_STEP_REDUCE, -1, shape, 0);
  step.flags = flags;
  step.a = a;
  step.b = b;
  step.dst = dst;
  return step;
}

sl_step_t Repeat(uint32_t length, uint32_t count) {
  sl_step_t step = Step(SL_STEP_REPEAT, -1, kNothing, 0);
  step.length = length;
  step.count = count;
  return step;
}

Sketch Sketch::Of(const kernel::Plan& plan) {
  Sketch sketch;
  sketch.desc = plan.desc();
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    auto& steps = sketch.lanes.emplace_back();
    for (const kernel::PlanStep& step : plan.lane(lane)) steps.push_back(step.data);
  }
  return sketch;
}

Result<std::unique_ptr<kernel::Plan>> Sketch::Build(uint32_t rank, uint32_t size, const sl_op_t& op) const {
  kernel::PlanBuilder builder({rank, size, kLinkLanes, kChunkBytes, 0, op});
  SL_TRY(builder.Describe(desc));
  for (const auto& lane : lanes) {
    SL_TRY(builder.BeginLane());
    for (const sl_step_t& step : lane) SL_TRY(builder.AddStep(step));
  }
  return builder.Finish();
}

sl_op_t MakeOp(sl_op_kind_t kind, uint64_t count, int32_t root, sl_reduction_t reduction) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_FLOAT32;
  op.reduction = reduction;
  op.root = root;
  op.peer = -1;
  op.count = count;
  return op;
}

sl_plan_desc_t MakeDesc(uint32_t modulus, uint64_t count, uint64_t block, uint64_t chunk) {
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = modulus;
  desc.chunk = chunk;
  desc.rounds = (block + chunk - 1) / chunk;
  desc.send = desc.recv = {block, block, count};
  desc.credits = 1;
  return desc;
}

Team::Team(const sl_op_t& op, std::vector<Sketch> sketches) : sketches_(std::move(sketches)) {
  for (size_t rank = 0; rank < sketches_.size(); ++rank) case_.ranks.push_back({nullptr, op});
}

Verdict Team::Check() {
  plans_.clear();
  const auto size = static_cast<uint32_t>(sketches_.size());
  for (uint32_t rank = 0; rank < size; ++rank) {
    auto plan = sketches_[rank].Build(rank, size, case_.ranks[rank].op);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return {};
    plans_.push_back(plan.Take());
    case_.ranks[rank].plan = plans_.back().get();
  }
  return Verify(case_);
}

std::string Team::Text() {
  const Verdict verdict = Check();
  return verdict.proved() ? "" : ToText(*verdict.counter_example);
}

}  // namespace sl::verify

// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/sketch_test_util.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/plan/part.h"

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

namespace {

// One step of a round and repetition, as a row of a trace; empty where it is skipped.
std::vector<int64_t> RowOf(const kernel::Plan& plan, const sl_step_t& step, uint64_t round, uint64_t repetition,
                           bool scales) {
  const sl_plan_desc_t& desc = plan.desc();
  const auto block = [&](const sl_operand_t& operand) {
    return kernel::BlockAt(operand.block, operand.block_step, repetition, desc.block_modulus);
  };
  const uint64_t elements =
      kernel::PartOf(plan.geometry(step.shape.buffer), block(step.shape), desc.chunk, round).elements;
  if (elements == 0) return {};
  const bool moves = step.kind == SL_STEP_COPY || step.kind == SL_STEP_REDUCE;
  std::vector<int64_t> row = {step.kind, moves ? -1 : step.peer, step.lane, scales ? step.flags : 0};
  // A RESERVE is the same whatever is written there later.
  row.push_back(step.kind == SL_STEP_RESERVE || step.kind == SL_STEP_RELEASE ? 0 : static_cast<int64_t>(elements));
  for (const sl_operand_t* operand : {&step.a, &step.b, &step.dst, &step.dst2}) {
    const bool memory = operand->buffer >= SL_BUFFER_SEND && operand->buffer <= SL_BUFFER_SCRATCH;
    const auto start = [&] { return kernel::BlockStart(plan.geometry(operand->buffer), block(*operand)); };
    row.push_back(operand->buffer);
    row.push_back(memory ? static_cast<int64_t>(start() + round * desc.chunk)
                         : (operand->buffer == SL_BUFFER_NONE ? 0 : operand->peer));
  }
  return row;
}

}  // namespace

Trace Unroll(const kernel::Plan& plan, bool scales) {
  Trace trace;
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    const auto steps = plan.lane(lane);
    for (uint64_t round = 0; round < std::min<uint64_t>(plan.desc().rounds, 1000); ++round) {
      for (size_t i = 0; i < steps.size(); ++i) {
        const bool repeats = steps[i].data.kind == SL_STEP_REPEAT;
        const size_t first = repeats ? i + 1 : i;
        const size_t end = repeats ? first + steps[i].data.length : i + 1;
        for (uint64_t repetition = 0; repetition < (repeats ? steps[i].data.count : 1); ++repetition) {
          for (size_t k = first; k < end; ++k) {
            std::vector<int64_t> row = RowOf(plan, steps[k].data, round, repetition, scales);
            if (!row.empty()) trace.push_back(std::move(row));
          }
        }
        i = end - 1;
      }
    }
    trace.push_back({});
  }
  return trace;
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

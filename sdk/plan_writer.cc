// SPDX-License-Identifier: Apache-2.0
#include "sdk/plan_writer.h"

namespace sl {

void PlanWriter::Begin(const sl_plan_desc_t& desc, uint32_t link_lane) {
  status_ = ops_->describe(builder_, &desc);
  NextLane(link_lane);
}

void PlanWriter::NextLane(uint32_t link_lane) {
  link_lane_ = link_lane;
  if (status_ == SL_OK) status_ = ops_->begin_lane(builder_);
}

sl_step_t PlanWriter::Step(uint32_t kind, sl_operand_t shape) const {
  sl_step_t step{};
  step.struct_size = sizeof(step);
  step.kind = kind;
  step.peer = -1;
  step.lane = link_lane_;
  step.shape = shape;
  return step;
}

void PlanWriter::Add(const sl_step_t& step) {
  if (repeating_) {
    repeated_.push_back(step);
  } else if (status_ == SL_OK) {
    status_ = ops_->add_step(builder_, &step);
  }
}

void PlanWriter::EndRepeat(uint32_t count) {
  sl_step_t repeat = Step(SL_STEP_REPEAT, kNoOperand);
  repeat.length = static_cast<uint32_t>(repeated_.size());
  repeat.count = count;
  if (count != 0 && !repeated_.empty()) {
    Add(repeat);
    for (const sl_step_t& step : repeated_) Add(step);
  }
  repeated_.clear();
}

void PlanWriter::Wait(uint32_t peer, sl_operand_t shape) {
  sl_step_t step = Step(SL_STEP_WAIT, shape);
  step.peer = static_cast<int32_t>(peer);
  Add(step);
}

void PlanWriter::Reserve(uint32_t peer, sl_operand_t shape) {
  sl_step_t step = Step(SL_STEP_RESERVE, shape);
  step.peer = static_cast<int32_t>(peer);
  Add(step);
}

void PlanWriter::Release(uint32_t peer, sl_operand_t shape) {
  sl_step_t step = Step(SL_STEP_RELEASE, shape);
  step.peer = static_cast<int32_t>(peer);
  Add(step);
}

void PlanWriter::Copy(sl_operand_t shape, sl_operand_t a, sl_operand_t dst, sl_operand_t dst2) {
  sl_step_t step = Step(SL_STEP_COPY, shape);
  step.a = a;
  step.dst = dst;
  step.dst2 = dst2;
  Add(step);
}

void PlanWriter::Reduce(sl_operand_t shape, uint32_t flags, sl_operand_t a, sl_operand_t b, sl_operand_t dst,
                        sl_operand_t dst2) {
  sl_step_t step = Step(SL_STEP_REDUCE, shape);
  step.flags = flags;
  step.a = a;
  step.b = b;
  step.dst = dst;
  step.dst2 = dst2;
  Add(step);
}

void PlanWriter::Put(uint32_t peer, sl_operand_t shape, sl_operand_t a) {
  sl_step_t step = Step(SL_STEP_PUT, shape);
  step.peer = static_cast<int32_t>(peer);
  step.a = a;
  Add(step);
}

}  // namespace sl

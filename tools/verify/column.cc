// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/column.h"

#include <algorithm>
#include <cstring>

#include "kernel/plan/part.h"
#include "kernel/plan/signature.h"

namespace sl::verify {
namespace {

bool IsMemory(uint32_t buffer) {
  return buffer == SL_BUFFER_SEND || buffer == SL_BUFFER_RECV || buffer == SL_BUFFER_SCRATCH;
}

// Looks at plan after plan for what keeps them from falling into columns.
class ColumnFinder {
 public:
  explicit ColumnFinder(const Case& test) : test_(test), op_(OperationOf(test)) {}

  std::optional<Column> Find() {
    for (uint32_t rank = 0; rank < test_.ranks.size(); ++rank) {
      const kernel::Plan* plan = test_.ranks[rank].plan;
      if (plan == nullptr) continue;
      if (!LookAtFrame(plan->desc()) || !LookAtSteps(*plan)) return std::nullopt;
      LookAtExtents(rank, plan->desc());
      keeps_blocks_ &= plan->lane_count() == 1;
    }
    if (block_ == 0 && op_.count == 0) return Column{1, 0, false};
    if (block_ == 0) return std::nullopt;
    if (keeps_blocks_) return Column{block_, std::max(kernel::RoundsFor(op_.count, block_), named_), true};
    if (!divides_) return std::nullopt;
    return Column{block_, op_.count / block_, false};
  }

 private:
  // One block length and one chunk for all buffers of all ranks, and rounds enough for a whole block.
  bool LookAtFrame(const sl_plan_desc_t& desc) {
    for (const sl_geometry_t* geometry : {&desc.send, &desc.recv, &desc.scratch}) {
      if (geometry->total == 0) continue;
      if (block_ == 0) {
        block_ = geometry->length;
        chunk_ = desc.chunk;
      }
      if (chunk_ == 0 || geometry->stride != block_ || geometry->length != block_ || desc.chunk != chunk_) return false;
      if (desc.rounds < kernel::RoundsFor(std::min(block_, geometry->total), chunk_)) return false;
    }
    return true;
  }

  bool LookAtSteps(const kernel::Plan& plan) {
    for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
      for (const kernel::PlanStep& step : plan.lane(lane)) {
        if (step.data.kind == SL_STEP_REPEAT) continue;
        const sl_operand_t& shape = step.data.shape;
        // Steps of a buffer that has no blocks are skipped, whatever they name.
        if (plan.geometry(shape.buffer).total == 0) continue;
        named_ = std::max<uint64_t>(named_, shape.block_step != 0 ? plan.desc().block_modulus : shape.block + 1);
        for (const sl_operand_t* operand : {&step.data.a, &step.data.b, &step.data.dst, &step.data.dst2}) {
          if (!IsMemory(operand->buffer)) continue;
          if (plan.geometry(operand->buffer).total == 0) return false;
          keeps_blocks_ &= operand->block == shape.block && operand->block_step == shape.block_step;
        }
      }
    }
    return true;
  }

  // Cut or not, buffers begin with a block. Blocks are cut alike where every buffer is one vector of `count` elements;
  // else none is cut.
  void LookAtExtents(uint32_t rank, const sl_plan_desc_t& desc) {
    const auto size = static_cast<uint32_t>(test_.ranks.size());
    const uint64_t extents[] = {kernel::SendElements(op_, rank, size), kernel::RecvElements(op_, rank, size),
                                desc.scratch.total};
    for (const uint64_t extent : extents) keeps_blocks_ &= extent == 0 || extent == op_.count;
    for (const sl_geometry_t* geometry : {&desc.send, &desc.recv, &desc.scratch}) {
      if (geometry->total == 0) continue;
      keeps_blocks_ &= geometry->total == op_.count;
      divides_ &= geometry->total % block_ == 0 && op_.count % block_ == 0;
    }
  }

  const Case& test_;
  const sl_op_t& op_;
  uint64_t block_ = 0;
  uint64_t chunk_ = 0;
  uint64_t named_ = 0;        // blocks that steps name
  bool keeps_blocks_ = true;  // every step works on one block, and all buffers are cut alike
  bool divides_ = true;       // no block is cut
};

sl_op_t OpOf(const sl_op_t& op, const Column& column) {
  sl_op_t one = op;
  one.count = column.count;
  return one;
}

sl_plan_desc_t DescOf(const kernel::Plan& plan, const Column& column) {
  sl_plan_desc_t desc = plan.desc();
  const uint64_t scratch = desc.scratch_bytes / plan.element_bytes();
  desc.chunk = 1;
  desc.rounds = 1;
  for (sl_geometry_t* geometry : {&desc.send, &desc.recv, &desc.scratch}) {
    const uint64_t blocks = column.cut ? column.count : geometry->total / column.block;
    *geometry = {1, 1, geometry->total == 0 ? 0 : blocks};
  }
  const uint64_t scratch_blocks = column.cut ? desc.scratch.total : scratch / column.block;
  desc.scratch_bytes = scratch_blocks * plan.element_bytes();
  return desc;
}

bool SameDesc(const sl_plan_desc_t& a, const sl_plan_desc_t& b) {
  return a.block_modulus == b.block_modulus && a.chunk == b.chunk && a.rounds == b.rounds &&
         a.scratch_bytes == b.scratch_bytes && a.credits == b.credits && a.send.total == b.send.total &&
         a.recv.total == b.recv.total && a.scratch.total == b.scratch.total;
}

bool SameSteps(const kernel::Plan& a, const kernel::Plan& b) {
  if (a.lane_count() != b.lane_count()) return false;
  const auto same = [](const kernel::PlanStep& x, const kernel::PlanStep& y) {
    return std::memcmp(&x.data, &y.data, sizeof(x.data)) == 0;
  };
  for (uint32_t lane = 0; lane < a.lane_count(); ++lane) {
    const auto x = a.lane(lane), y = b.lane(lane);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

Result<std::unique_ptr<kernel::Plan>> Rebuild(const kernel::Plan& plan, const sl_op_t& op, const Column& column) {
  constexpr uint32_t kAnyLanes = UINT32_MAX;
  constexpr uint32_t kAnySlots = 0;
  kernel::PlanBuilder builder({plan.rank(), plan.size(), kAnyLanes, plan.element_bytes(), kAnySlots, OpOf(op, column)});
  SL_TRY(builder.Describe(DescOf(plan, column)));
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    SL_TRY(builder.BeginLane());
    for (const kernel::PlanStep& step : plan.lane(lane)) SL_TRY(builder.AddStep(step.data));
  }
  return builder.Finish();
}

}  // namespace

std::optional<Column> FindColumn(const Case& test) { return ColumnFinder(test).Find(); }

Result<PlanSet> MakeColumn(const Case& test, const Column& column) {
  PlanSet set;
  set.test = test;
  set.test.folds.rounds = true;
  set.test.folds.blocks = column.cut;
  set.plans.resize(test.ranks.size());
  for (uint32_t rank = 0; rank < test.ranks.size(); ++rank) {
    RankPlan& part = set.test.ranks[rank];
    if (part.plan == nullptr) continue;
    SL_ASSIGN(set.plans[rank], Rebuild(*part.plan, part.op, column));
    part = {set.plans[rank].get(), OpOf(part.op, column)};
  }
  return set;
}

bool IsColumnOf(const Case& made, const Case& test, const Column& column) {
  if (made.ranks.size() != test.ranks.size() || made.folds.blocks != column.cut) return false;
  for (uint32_t rank = 0; rank < test.ranks.size(); ++rank) {
    const kernel::Plan* ours = made.ranks[rank].plan;
    const kernel::Plan* theirs = test.ranks[rank].plan;
    if ((ours == nullptr) != (theirs == nullptr)) return false;
    if (ours == nullptr) continue;
    if (!SameDesc(ours->desc(), DescOf(*theirs, column)) || !SameSteps(*ours, *theirs)) return false;
  }
  return true;
}

}  // namespace sl::verify

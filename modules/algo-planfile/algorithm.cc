// SPDX-License-Identifier: Apache-2.0
#include "algorithm.h"

#include <algorithm>
#include <cstdio>

#include "sdk/datatype.h"
#include "sdk/link_cost.h"
#include "sdk/plan_cut.h"

namespace sl::algo_planfile {
namespace {

// How the elements of one operation are cut.
struct Cut {
  uint64_t block;   // elements
  uint64_t chunk;   // elements of a block that move in one round
  uint64_t rounds;  // none when there is nothing to move
};

Cut CutOf(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape) {
  const uint64_t block = plan.blocks == 1 ? op.count : BlockOf(op.count, plan.blocks);
  const uint64_t limit = std::min<uint64_t>(shape.link_chunk_bytes, plan.chunk_bytes) / DatatypeBytes(op.datatype);
  const uint64_t chunk = std::clamp<uint64_t>(block, 1, std::max<uint64_t>(limit, 1));
  return {block, chunk, DivideUp(block, chunk)};
}

// A buffer of `blocks` blocks. One that `count` is cut into ends with the elements, one of a block a rank is full.
sl_geometry_t GeometryOf(const PlanFile& plan, const sl_op_t& op, const Cut& cut, uint64_t blocks) {
  return {cut.block, cut.block, blocks == plan.blocks ? op.count : blocks * op.count};
}

uint64_t SizeOf(const sl_op_t& op, uint32_t ranks) {
  const bool whole = op.kind == SL_OP_ALL_REDUCE || op.kind == SL_OP_BROADCAST || op.kind == SL_OP_REDUCE;
  return op.count * DatatypeBytes(op.datatype) * (whole ? 1 : ranks);
}

// A plan is written for one root. For another one all ranks are turned: rank r does what the file says of the rank that
// is as far from the file's root as r is from the operation's.
class Turn {
 public:
  Turn(const PlanFile& plan, const sl_op_t& op) : plan_(plan), ranks_(plan.ranks) {
    if (plan.root >= 0) by_ = (static_cast<uint32_t>(op.root) + ranks_ - static_cast<uint32_t>(plan.root)) % ranks_;
  }

  // The rank of the file whose steps `rank` runs.
  uint32_t Back(uint32_t rank) const { return (rank + ranks_ - by_) % ranks_; }

  sl_step_t Of(sl_step_t step) const {
    step.peer = Peer(step.peer);
    for (sl_operand_t* operand : {&step.a, &step.b, &step.dst, &step.dst2, &step.shape}) {
      operand->peer = Peer(operand->peer);
      // Of a gather and a scatter the root has a block for each rank.
      const bool one_a_rank = (plan_.kind == SL_OP_GATHER && operand->buffer == SL_BUFFER_RECV) ||
                              (plan_.kind == SL_OP_SCATTER && operand->buffer == SL_BUFFER_SEND);
      if (one_a_rank) operand->block = (operand->block + by_) % ranks_;
    }
    return step;
  }

 private:
  int32_t Peer(int32_t peer) const {
    return peer < 0 ? peer : static_cast<int32_t>((static_cast<uint32_t>(peer) + by_) % ranks_);
  }

  const PlanFile& plan_;
  const uint32_t ranks_;
  uint32_t by_ = 0;
};

}  // namespace

std::string WhyNot(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape) {
  const std::string name = "plan " + plan.name + " is for ";
  if (op.kind != plan.kind) return name + OpKindName(plan.kind);
  if (shape.size != plan.ranks) return name + std::to_string(plan.ranks) + " ranks";
  const uint64_t bytes = SizeOf(op, shape.size);
  if (bytes < plan.min_bytes || bytes > plan.max_bytes) {
    return name + std::to_string(plan.min_bytes) + " to " + std::to_string(plan.max_bytes) + " bytes";
  }
  if (plan.link_lanes > shape.lanes) return name + "links of " + std::to_string(plan.link_lanes) + " lanes";
  if (shape.link_slots != 0 && plan.credits > shape.link_slots) {
    return name + "links of " + std::to_string(plan.credits) + " slots";
  }
  return "";
}

const PlanFile* FindPlan(const std::vector<PlanFile>& plans, const sl_op_t& op, const sl_comm_shape_t& shape,
                         std::string* out_reason) {
  *out_reason = plans.empty() ? "no plan files: set the option `paths`" : "";
  bool near = false;
  for (const PlanFile& plan : plans) {
    const std::string reason = WhyNot(plan, op, shape);
    if (reason.empty()) return &plan;
    // One for this operation says more than one for another.
    if (out_reason->empty() || (!near && plan.kind == op.kind)) *out_reason = reason;
    near |= plan.kind == op.kind;
  }
  return nullptr;
}

uint64_t TimeOf(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape, const CostOptions& options) {
  const Cut cut = CutOf(plan, op, shape);
  const double bytes = static_cast<double>(plan.puts * cut.block * DatatypeBytes(op.datatype));
  return plan.waits * cut.rounds * options.latency_ns + plan.puts * cut.rounds * kMessageNs +
         static_cast<uint64_t>(bytes * 1e9 / static_cast<double>(options.bytes_per_second));
}

Status WritePlan(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape,
                 const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) {
  const Cut cut = CutOf(plan, op, shape);
  const Turn turn(plan, op);
  const uint32_t rank = turn.Back(shape.rank);
  const uint64_t send = SendBlocks(plan, rank);
  const uint64_t recv = RecvBlocks(plan, rank);
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = static_cast<uint32_t>(std::max({send, recv, uint64_t{plan.scratch_blocks}, uint64_t{1}}));
  desc.chunk = cut.chunk;
  desc.rounds = cut.rounds;
  desc.send = GeometryOf(plan, op, cut, send);
  desc.recv = GeometryOf(plan, op, cut, recv);
  desc.scratch = {cut.block, cut.block, plan.scratch_blocks * cut.block};
  desc.scratch_bytes = desc.scratch.total * DatatypeBytes(op.datatype);
  desc.credits = plan.credits;
  sl_status_t status = ops->describe(builder, &desc);
  for (const PlanLane& lane : plan.lanes[rank]) {
    if (status == SL_OK) status = ops->begin_lane(builder);
    for (const sl_step_t& step : lane.steps) {
      const sl_step_t turned = turn.Of(step);
      if (status == SL_OK) status = ops->add_step(builder, &turned);
    }
  }
  return Status(status);
}

}  // namespace sl::algo_planfile

using sl::algo_planfile::PlanFile;

sl_status_t sl_algorithm_t::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  std::string reason;
  const PlanFile* plan = sl::algo_planfile::FindPlan(plans_, op, shape_, &reason);
  if (plan == nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason.c_str());
    return SL_ERR_UNSUPPORTED;
  }
  out->run = SL_RUN_PLAN;
  // What only moves data does not depend on anything.
  out->determinism = sl::HasReduction(op.kind) ? plan->determinism : SL_DETERMINISM_WORLD_SIZE;
  out->time_ns = sl::algo_planfile::TimeOf(*plan, op, shape_, cost_);
  std::snprintf(out->reason, sizeof(out->reason), "plan %s: %llu waits and %llu chunks a round", plan->name.c_str(),
                static_cast<unsigned long long>(plan->waits), static_cast<unsigned long long>(plan->puts));
  return SL_OK;
}

sl::Status sl_algorithm_t::Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const {
  std::string reason;
  const PlanFile* plan = sl::algo_planfile::FindPlan(plans_, op, shape_, &reason);
  if (plan == nullptr) return {SL_ERR_UNSUPPORTED, reason};
  return sl::algo_planfile::WritePlan(*plan, op, shape_, ops, builder);
}

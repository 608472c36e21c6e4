// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rotation.h"

#include <algorithm>
#include <cstring>

namespace sl::verify {
namespace {

RotationCheck* Self(sl_plan_builder_t* builder) { return reinterpret_cast<RotationCheck*>(builder); }

// Calls `use` with a struct of the module, which may be older or newer: what it does not have is zero.
template <typename T, typename Use>
sl_status_t WithSized(const T* theirs, Use use) {
  if (theirs != nullptr && theirs->struct_size >= sizeof(T)) {
    use(*theirs);
    return SL_OK;
  }
  T ours{};
  if (theirs != nullptr) std::memcpy(&ours, theirs, theirs->struct_size);
  use(ours);
  return SL_OK;
}

sl_status_t DescribeSlot(sl_plan_builder_t* builder, const sl_plan_desc_t* desc) {
  return WithSized(desc, [&](const sl_plan_desc_t& sized) { Self(builder)->Describe(sized); });
}
sl_status_t BeginLaneSlot(sl_plan_builder_t* builder) {
  Self(builder)->BeginLane();
  return SL_OK;
}
sl_status_t AddStepSlot(sl_plan_builder_t* builder, const sl_step_t* step) {
  return WithSized(step, [&](const sl_step_t& sized) { Self(builder)->AddStep(sized); });
}

constexpr sl_plan_builder_ops_t kOps = {sizeof(sl_plan_builder_ops_t), 0, DescribeSlot, BeginLaneSlot, AddStepSlot};

bool Same(const sl_geometry_t& a, const sl_geometry_t& b) {
  return a.stride == b.stride && a.length == b.length && a.total == b.total;
}

// A block a rank, all of `count` elements, or none at all.
bool IsCutByRank(const sl_plan_desc_t& desc, const sl_geometry_t& geometry, uint64_t count, uint32_t ranks) {
  if (geometry.total == 0) return true;
  return desc.block_modulus == ranks && geometry.stride == count && geometry.length == count &&
         geometry.total == count * ranks;
}

bool NamesBlocks(const kernel::Plan& plan) {
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    const auto steps = plan.lane(lane);
    const auto moves = [](const kernel::PlanStep& step) {
      return step.data.kind != SL_STEP_REPEAT && (step.data.shape.block != 0 || step.data.shape.block_step != 0);
    };
    if (std::any_of(steps.begin(), steps.end(), moves)) return true;
  }
  return false;
}

}  // namespace

std::optional<Rotation> RotationOfRoots(const Case& test, uint32_t distance) {
  const sl_op_t& op = OperationOf(test);
  const auto ranks = static_cast<uint32_t>(test.ranks.size());
  Rotation rotation{ranks, distance, op.kind == SL_OP_SCATTER, op.kind == SL_OP_GATHER, false};
  switch (op.kind) {
    case SL_OP_BROADCAST:
    case SL_OP_REDUCE:
    case SL_OP_SEND:
    case SL_OP_RECV:
      return rotation;
    case SL_OP_GATHER:
    case SL_OP_SCATTER: {
      const auto cut = [&](const RankPlan& part) {
        const sl_plan_desc_t& desc = part.plan->desc();
        return IsCutByRank(desc, rotation.moves_send ? desc.send : desc.recv, op.count, ranks);
      };
      if (!std::all_of(test.ranks.begin(), test.ranks.end(), cut)) return std::nullopt;
      return rotation;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Rotation> RotationOfRanks(const sl_op_t& op, const kernel::Plan& first) {
  Rotation rotation;
  rotation.ranks = first.size();
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      // Blocks of one vector, or the vector as a whole.
      rotation.moves_send = rotation.moves_recv = rotation.moves_scratch = NamesBlocks(first);
      return rotation;
    case SL_OP_REDUCE_SCATTER:
      rotation.moves_send = true;
      return rotation;
    case SL_OP_ALL_GATHER:
      rotation.moves_recv = true;
      return rotation;
    case SL_OP_ALL_TO_ALL:
      rotation.moves_send = rotation.moves_recv = true;
      return rotation;
    default:
      return std::nullopt;
  }
}

const sl_plan_builder_ops_t* RotationCheck::Ops() { return &kOps; }

uint32_t RotationCheck::Moved(uint32_t rank) const {
  const uint32_t moved = rank + rotation_.distance;
  return moved >= rotation_.ranks ? moved - rotation_.ranks : moved;
}

bool RotationCheck::IsMoved(int32_t base, int32_t turned) const {
  return base < 0 ? turned == base : static_cast<int32_t>(Moved(static_cast<uint32_t>(base))) == turned;
}

bool RotationCheck::MovesBlocks(uint32_t buffer) const {
  if (buffer == SL_BUFFER_SEND) return rotation_.moves_send;
  return buffer == SL_BUFFER_RECV ? rotation_.moves_recv : rotation_.moves_scratch;
}

bool RotationCheck::Same(const sl_operand_t& base, const sl_operand_t& turned) const {
  if (base.buffer != turned.buffer) return false;
  if (base.buffer == SL_BUFFER_NONE) return true;
  if (base.buffer == SL_BUFFER_INBOX || base.buffer == SL_BUFFER_OUTBOX) return IsMoved(base.peer, turned.peer);
  if (base.block_step != turned.block_step) return false;
  if (!MovesBlocks(base.buffer)) return base.block == turned.block;
  return base_.desc().block_modulus == rotation_.ranks && Moved(base.block) == turned.block;
}

bool RotationCheck::Same(const sl_step_t& base, const sl_step_t& turned) const {
  if (base.kind != turned.kind) return false;
  if (base.kind == SL_STEP_REPEAT) return base.length == turned.length && base.count == turned.count;
  const bool has_peer = base.kind != SL_STEP_COPY && base.kind != SL_STEP_REDUCE;
  if (has_peer && !IsMoved(base.peer, turned.peer)) return false;
  return base.flags == turned.flags && base.lane == turned.lane && Same(base.a, turned.a) && Same(base.b, turned.b) &&
         Same(base.dst, turned.dst) && Same(base.dst2, turned.dst2) && Same(base.shape, turned.shape);
}

void RotationCheck::Describe(const sl_plan_desc_t& desc) {
  const sl_plan_desc_t& base = base_.desc();
  const bool same = base.block_modulus == desc.block_modulus && base.chunk == desc.chunk &&
                    base.rounds == desc.rounds && base.scratch_bytes == desc.scratch_bytes &&
                    base.credits == desc.credits && verify::Same(base.send, desc.send) &&
                    verify::Same(base.recv, desc.recv) && verify::Same(base.scratch, desc.scratch);
  differs_ |= described_ || !same || desc.struct_size < SL_PLAN_DESC_SIZE_1_0;
  described_ = true;
}

void RotationCheck::BeginLane() {
  differs_ |= !described_ || lanes_ == base_.lane_count() || !wanted_.empty();
  if (differs_) return;
  wanted_ = base_.lane(lanes_);
  ++lanes_;
}

void RotationCheck::AddStep(const sl_step_t& step) {
  differs_ = differs_ || wanted_.empty() || step.struct_size < SL_STEP_SIZE_1_0 || !Same(wanted_.front().data, step);
  if (!differs_) wanted_ = wanted_.subspan(1);
}

bool RotationCheck::matches() const {
  return described_ && !differs_ && lanes_ == base_.lane_count() && wanted_.empty();
}

bool RotationCheck::Matches(const kernel::Plan& plan) {
  if (plan.element_bytes() != base_.element_bytes()) return false;
  Describe(plan.desc());
  for (uint32_t lane = 0; lane < plan.lane_count(); ++lane) {
    BeginLane();
    for (const kernel::PlanStep& step : plan.lane(lane)) AddStep(step.data);
  }
  return matches();
}

bool IsRotation(const Case& base, const Case& turned, const Rotation& rotation) {
  const auto ranks = static_cast<uint32_t>(base.ranks.size());
  if (turned.ranks.size() != ranks) return false;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const kernel::Plan* a = base.ranks[rank].plan;
    const kernel::Plan* b = turned.ranks[(rank + rotation.distance) % ranks].plan;
    if ((a == nullptr) != (b == nullptr)) return false;
    if (a != nullptr && !RotationCheck(*a, rotation).Matches(*b)) return false;
  }
  return true;
}

bool MovesElements(const Case& folded) {
  const kernel::Plan* first = folded.ranks[0].plan;
  const sl_op_t& op = folded.ranks[0].op;
  const std::optional<Rotation> rotation = RotationOfRanks(op, *first);
  if (!rotation || rotation->moves_send != folded.folds.moves_inputs) return false;
  const bool moves = rotation->moves_send || rotation->moves_recv;
  const uint64_t count = op.kind == SL_OP_ALL_REDUCE ? rotation->ranks : 1;
  if (moves && op.count != count && op.count != 0) return false;
  const sl_plan_desc_t& desc = first->desc();
  const auto cut = [&](bool moved, const sl_geometry_t& geometry) {
    return !moved || IsCutByRank(desc, geometry, 1, rotation->ranks);
  };
  return cut(rotation->moves_send, desc.send) && cut(rotation->moves_recv, desc.recv) &&
         cut(rotation->moves_scratch, desc.scratch);
}

std::optional<Case> FoldRanks(const Case& test) {
  const kernel::Plan* first = test.ranks.empty() ? nullptr : test.ranks[0].plan;
  if (first == nullptr) return std::nullopt;
  std::optional<Rotation> rotation = RotationOfRanks(test.ranks[0].op, *first);
  if (!rotation) return std::nullopt;
  Case folded = test;
  folded.folds.ranks = true;
  folded.folds.moves_inputs = rotation->moves_send;
  for (uint32_t rank = 1; rank < test.ranks.size(); ++rank) {
    rotation->distance = rank;
    const kernel::Plan* plan = test.ranks[rank].plan;
    if (plan == nullptr || !RotationCheck(*first, *rotation).Matches(*plan)) return std::nullopt;
    folded.ranks[rank] = {};
  }
  return folded;
}

}  // namespace sl::verify

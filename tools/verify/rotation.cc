// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rotation.h"

#include <algorithm>

namespace sl::verify {
namespace {

// Compares two plans under the renaming.
class Turn {
 public:
  Turn(uint32_t distance, uint32_t ranks) : distance_(distance), ranks_(ranks) {}

  bool Same(const kernel::Plan& base, const kernel::Plan& turned) const {
    if (base.lane_count() != turned.lane_count() || base.element_bytes() != turned.element_bytes()) return false;
    if (!SameFrame(base.desc(), turned.desc())) return false;
    for (uint32_t lane = 0; lane < base.lane_count(); ++lane) {
      const auto a = base.lane(lane), b = turned.lane(lane);
      const auto same = [this](const kernel::PlanStep& x, const kernel::PlanStep& y) { return Same(x.data, y.data); };
      if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return false;
    }
    return true;
  }

 private:
  bool IsMoved(int32_t base, int32_t turned) const {
    if (base < 0) return turned == base;
    return turned >= 0 && (static_cast<uint32_t>(base) + distance_) % ranks_ == static_cast<uint32_t>(turned);
  }

  bool Same(const sl_operand_t& a, const sl_operand_t& b) const {
    if (a.buffer != b.buffer) return false;
    if (a.buffer == SL_BUFFER_NONE) return true;
    if (a.buffer == SL_BUFFER_INBOX || a.buffer == SL_BUFFER_OUTBOX) return IsMoved(a.peer, b.peer);
    return a.block == b.block && a.block_step == b.block_step;
  }

  bool Same(const sl_step_t& a, const sl_step_t& b) const {
    if (a.kind != b.kind) return false;
    if (a.kind == SL_STEP_REPEAT) return a.length == b.length && a.count == b.count;
    const bool has_peer = a.kind != SL_STEP_COPY && a.kind != SL_STEP_REDUCE;
    if (has_peer && !IsMoved(a.peer, b.peer)) return false;
    return a.flags == b.flags && a.lane == b.lane && Same(a.a, b.a) && Same(a.b, b.b) && Same(a.dst, b.dst) &&
           Same(a.dst2, b.dst2) && Same(a.shape, b.shape);
  }

  static bool Same(const sl_geometry_t& a, const sl_geometry_t& b) {
    return a.stride == b.stride && a.length == b.length && a.total == b.total;
  }

  static bool SameFrame(const sl_plan_desc_t& a, const sl_plan_desc_t& b) {
    return a.block_modulus == b.block_modulus && a.chunk == b.chunk && a.rounds == b.rounds &&
           a.scratch_bytes == b.scratch_bytes && a.credits == b.credits && Same(a.send, b.send) &&
           Same(a.recv, b.recv) && Same(a.scratch, b.scratch);
  }

  const uint32_t distance_;
  const uint32_t ranks_;
};

}  // namespace

bool CanRotate(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_SEND || kind == SL_OP_RECV;
}

bool IsRotation(const PlanSet& base, const PlanSet& turned, uint32_t distance) {
  const auto ranks = static_cast<uint32_t>(base.plans.size());
  if (turned.plans.size() != ranks) return false;
  const Turn turn(distance, ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const kernel::Plan* a = base.plans[rank].get();
    const kernel::Plan* b = turned.plans[(rank + distance) % ranks].get();
    if ((a == nullptr) != (b == nullptr)) return false;
    if (a != nullptr && !turn.Same(*a, *b)) return false;
  }
  return true;
}

}  // namespace sl::verify

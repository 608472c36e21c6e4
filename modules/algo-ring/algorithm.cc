// SPDX-License-Identifier: Apache-2.0
#include "algorithm.h"

#include <cinttypes>
#include <cstdio>

#include "sdk/datatype.h"

namespace sl::algo_ring {

uint64_t ElementBytes(const sl_op_t& op) { return DatatypeBytes(op.datatype); }

}  // namespace sl::algo_ring

using sl::algo_ring::Work;

sl_status_t sl_algorithm_t::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->run = SL_RUN_PLAN;
  out->time_ns = 0;
  out->processors = 0;
  out->scratch_bytes = 0;
  // Reductions run in an order that depends on ranks alone; what only moves data does not depend on anything.
  out->determinism = sl::HasReduction(op.kind) ? SL_DETERMINISM_RANK : SL_DETERMINISM_WORLD_SIZE;
  if (const char* reason = family->Refuses(op, options); reason != nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return SL_ERR_UNSUPPORTED;
  }
  const Work work = family->WorkOf(op);
  out->time_ns = cost.Time(work);
  out->scratch_bytes = family->ScratchBytes(op);
  std::snprintf(out->reason, sizeof(out->reason), "%s: %" PRIu64 " hops of %" PRIu64 " ns, %" PRIu64 " chunks",
                family->Method(op), work.hops, cost.hop_ns(), work.messages);
  return SL_OK;
}

sl::Status sl_algorithm_t::Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const {
  if (const char* reason = family->Refuses(op, options); reason != nullptr) return {SL_ERR_UNSUPPORTED, reason};
  if (sl::IsTransfer(op.kind) && static_cast<uint32_t>(op.peer) == shape.rank) {
    return {SL_ERR_UNSUPPORTED, "a send to the own rank is a copy, not a plan"};
  }
  sl::PlanWriter writer(ops, builder);
  family->Write(op, &writer);
  return sl::Status(writer.status());
}

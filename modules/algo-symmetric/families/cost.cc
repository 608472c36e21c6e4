// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/families/cost.h"

#include "modules/algo-symmetric/kernels/slice.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

// Ranks have whole vectors, not one part for each rank.
bool IsOneVector(const sl_op_t& op) {
  return op.kind == SL_OP_ALL_REDUCE || op.kind == SL_OP_REDUCE || op.kind == SL_OP_BROADCAST;
}

}  // namespace

bool BeginAt(uint32_t bytes, const sl_op_t& op) {
  return IsOneVector(op) || op.count * DatatypeBytes(op.datatype) % bytes == 0;
}

const Cost& CostOf(const Costs& costs, const sl_op_t& op, const GpuSettings& settings) {
  if (settings.on_host) return costs.on_host;
  return BeginAt(kernels::kVectorBytes, op) ? costs.wire : costs.odd;
}

uint64_t LongerBytes(const sl_op_t& op, uint32_t size) {
  return op.count * DatatypeBytes(op.datatype) * (IsOneVector(op) ? 1 : size);
}

double SentBytes(const sl_op_t& op, uint32_t size, bool two_shot) {
  const double bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  if (two_shot) return 2 * bytes * (size - 1) / size;
  return bytes * (size - 1);
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
//
// Bulk: direct moves by the copy unit of an SM (kernels/direct/bulk_spread.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/direct_cut.h"
#include "modules/algo-symmetric/families/rounds.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

constexpr Costs kMove = {{12000, 371}, {12000, 371}, {}};  // fitted to 3 and 4 H200 (docs/gpu-performance.md)

// Bulk copies do not pay where parts do not begin at lines, and cannot go where they do not begin at vectors: kernels
// fall back to warps there.
const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  if (const char* reason = RefusesDirect(op, size, settings); reason != nullptr) return reason;
  if (HasReduction(op.kind)) return "copy units do not reduce";
  const bool pays = settings.serves_all || BeginAt(kernels::kWireLineBytes, op);
  return pays ? nullptr : "ranks' parts do not begin at lines of the wire";
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const uint32_t enough = WithHomeWork(kBulkBlocks, size);
  return CutDirect({DirectWay::kBulk, CostOf(kMove, op, settings), enough, enough}, op, rank, size, settings);
}

}  // namespace

const Family families::kBulk = {"symmetric_bulk", "bulk copies", Protocol::kRounds, false, true,
                                Refuses,          Cut,           RoundsKernel};

}  // namespace sl::algo_symmetric

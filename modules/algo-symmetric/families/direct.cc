// SPDX-License-Identifier: Apache-2.0
//
// Direct: from buffer to buffer, where all ranks reach them (kernels/direct/direct.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/direct_cut.h"
#include "modules/algo-symmetric/families/rounds.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

// All-reduces of two and broadcasts of two are fitted to what 2 H200 took, broadcasts through other ranks to 3 and 4
// H200, others to 2 H100, odd ones to 2 to 4 H200 (docs/gpu-performance.md). Loads and stores that share the wire are
// in each other's way, less so where half of both stays at home.
constexpr Costs kMove = {{5400, 345}, {9500, 345}, {}};
constexpr Costs kBroadcast = {{9000, 355}, {9000, 355}, {}};  // through the other ranks
constexpr Costs kBroadcastOfTwo = {{5300, 358}, {5300, 358}, {}};
constexpr Costs kReduce = {{5600, 329}, {11000, 306}, {}};
constexpr Costs kReduceOfTwo = {
    {5600, 329}, {8000, 168}, {}};  // odd results, stored in parts, are half of what there is
constexpr Costs kAllReduce = {{6800, 323}, {6800, 323}, {}};
constexpr Costs kAllReduceOfTwo = {{7800, 345}, {7800, 345}, {}};

const Costs& CostsOf(sl_op_kind_t kind, uint32_t size) {
  if (kind == SL_OP_ALL_REDUCE) return size == 2 ? kAllReduceOfTwo : kAllReduce;
  if (HasReduction(kind)) return size == 2 ? kReduceOfTwo : kReduce;
  if (kind != SL_OP_BROADCAST) return kMove;
  return size == 2 ? kBroadcastOfTwo : kBroadcast;
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const bool is_odd = HasReduction(op.kind) && !BeginAt(kernels::kVectorBytes, op);
  const uint32_t enough = is_odd ? kOddReducingBlocks : BlocksForWire(op.kind, size);
  const bool all_serve = settings.serves_all || LongerBytes(op, size) < kLongBytes;
  const DirectGrid grid{DirectWay::kWarps, CostOf(CostsOf(op.kind, size), op, settings), enough,
                        all_serve ? settings.staged_blocks : enough};
  return CutDirect(grid, op, rank, size, settings);
}

}  // namespace

const Family families::kDirect = {"symmetric_direct", "direct", Protocol::kRounds, false, true,
                                  RefusesDirect,      Cut,      RoundsKernel};

}  // namespace sl::algo_symmetric

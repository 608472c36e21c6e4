// SPDX-License-Identifier: Apache-2.0
//
// Staged: rounds through slots of the slice, reductions in two shots (kernels/rounds/staged.h). It serves every
// collective.
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/rounds.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to 3 and 4 H200, odd ones to 2 to 4, on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md).
constexpr Costs kOneShotCosts = {{9000, 190}, {15000, 40}, {13000, 31}};
constexpr Costs kTwoShotCosts = {{17000, 245}, {17000, 245}, {19000, 35}};
constexpr Costs kBroadcastCosts = {{5600, 300}, {5600, 300}, {11000, 46}};  // that every rank pulls from the root

const char* Refuses(const sl_op_t&, uint32_t, const GpuSettings&) { return nullptr; }

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  Choice choice = CutRounds(op, rank, size, settings, settings.staged_blocks);
  const bool two_shot = choice.pattern.results_wanted;
  const bool broadcasts = op.kind == SL_OP_BROADCAST;
  const Costs& costs = two_shot ? kTwoShotCosts : broadcasts ? kBroadcastCosts : kOneShotCosts;
  const double bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  const double sent = broadcasts && settings.on_host ? bytes : SentBytes(op, size, two_shot);
  const GridWork work{CostOf(costs, op, settings), sent, choice.blocks, settings.staged_blocks};
  const uint32_t blocks = BlocksFor(work, settings.staged_blocks, settings.budget);
  if (blocks != choice.blocks) choice = CutRounds(op, rank, size, settings, blocks, blocks);
  choice.time_ns = work.NanosecondsOn(blocks);
  return choice;
}

}  // namespace

const Family families::kStaged = {"symmetric_staged", "staged", Protocol::kRounds, false, false, Refuses, Cut,
                                  RoundsKernel};

}  // namespace sl::algo_symmetric

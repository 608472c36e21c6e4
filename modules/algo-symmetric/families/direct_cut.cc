// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/families/direct_cut.h"

#include <algorithm>

#include "modules/algo-symmetric/direct_work.h"
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/rounds.h"
#include "sdk/datatype.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {
namespace {

// What one block should at least have to do; fewer, busier blocks start faster.
constexpr uint64_t kDirectBytesOfBlock = 64 << 10;

}  // namespace

const char* RefusesDirect(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  if (!settings.reaches) return "peers do not reach callers' buffers";
  if (size < 2 || size > kernels::kReachRanks) return "it is for 2 to 32 ranks";
  if (HasReduction(op.kind) && op.reduction == SL_PREMUL_SUM) {
    return "scalars of ranks differ, and only stages are multiplied before others read them";
  }
  return nullptr;
}

Choice CutDirect(const DirectGrid& grid, const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
  const bool goes_through_peers = op.kind == SL_OP_REDUCE || op.kind == SL_OP_BROADCAST;  // see DirectOf
  const double sent =
      goes_through_peers ? static_cast<double>(bytes) : SentBytes(op, size, op.kind == SL_OP_ALL_REDUCE);
  const uint32_t useful = std::min(grid.useful, settings.staged_blocks);
  const uint64_t worth = DivideUp(LongerBytes(op, size), kDirectBytesOfBlock);
  const auto wanted = static_cast<uint32_t>(std::clamp<uint64_t>(worth, 1, useful));
  const GridWork work{grid.cost, sent, wanted, grid.enough};
  const uint32_t blocks = BlocksFor(work, settings.staged_blocks, settings.budget);
  Choice choice = CutRounds(op, rank, size, settings, blocks);
  choice.blocks = blocks;
  choice.direct = DirectOf(op, rank, size, settings.pushes);
  choice.direct.share_bytes =
      DivideUp(DivideUp(choice.direct.bytes, blocks), kernels::kWireLineBytes) * kernels::kWireLineBytes;
  const bool in_bulk = grid.way == DirectWay::kBulk;
  if (grid.way == DirectWay::kUnits) {
    choice.direct.blocks = blocks;  // which draw units
  } else {
    if (in_bulk || BytesDrawn(choice.direct, size) >= settings.drawn_bytes) Draw(size, blocks, in_bulk, &choice.direct);
    const Reached reached = ReachedOf(op, rank, settings.pushes);
    choice.send_reached = reached.send;
    choice.recv_reached = reached.recv;
  }
  choice.time_ns = work.NanosecondsOn(blocks);
  return choice;
}

}  // namespace sl::algo_symmetric

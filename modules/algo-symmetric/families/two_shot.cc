// SPDX-License-Identifier: Apache-2.0
//
// Two-shot packets: a packet to whoever reduces a block or hands it on, a second one with the result to all
// (kernels/packets/two_shot.h, kernels/packets/hand_on.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/family.h"
#include "modules/algo-symmetric/families/packets.h"
#include "modules/algo-symmetric/image_shelf.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to what 2 H200 took; on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md). Broadcasts move.
constexpr Costs kMove = {{3400, 185}, {3400, 185}, {0, 0}};
constexpr Costs kReduce = {{3700, 185}, {3700, 185}, {6800, 28}};

const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  return RefusesTwoShot(kLlKind, op, size, settings);
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const PacketCosts costs = {CostOf(kMove, op, settings), CostOf(kReduce, op, settings)};
  return CutTwoShot(kLlKind, costs, op, rank, size, settings);
}

// Formats are in the order of sl_datatype_t; what computes nothing comes behind them.
KernelRef Kernel(bool reduces, sl_datatype_t datatype) {
  return {kPackets, SL_DATATYPE_COUNT + 1 + (reduces ? datatype : SL_DATATYPE_COUNT)};
}

}  // namespace

const Family families::kTwoShot = {
    "symmetric_two_shot", "two-shot packets", Protocol::kTwoShot, false, false, Refuses, Cut, Kernel};

}  // namespace sl::algo_symmetric

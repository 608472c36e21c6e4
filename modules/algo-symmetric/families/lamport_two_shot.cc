// SPDX-License-Identifier: Apache-2.0
//
// Two-shot packets without a flag (kernels/packets/packet_format.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/family.h"
#include "modules/algo-symmetric/families/packets.h"
#include "modules/algo-symmetric/image_shelf.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to what 2 H200 took; on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md). Broadcasts move.
constexpr Costs kMove = {{4400, 390}, {4400, 390}, {0, 0}};
constexpr Costs kReduce = {{4500, 250}, {4500, 250}, {8400, 23}};

const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  return RefusesTwoShot(kLamportKind, op, size, settings);
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const PacketCosts costs = {CostOf(kMove, op, settings), CostOf(kReduce, op, settings)};
  return CutTwoShot(kLamportKind, costs, op, rank, size, settings);
}

// Formats are in the order of sl_datatype_t; what computes nothing comes behind them.
KernelRef Kernel(bool reduces, sl_datatype_t datatype) {
  return {kLamport, SL_DATATYPE_COUNT + 1 + (reduces ? datatype : SL_DATATYPE_COUNT)};
}

}  // namespace

const Family families::kLamportTwoShot = {
    "symmetric_lamport_two_shot", "two-shot Lamport packets", Protocol::kTwoShot, true, false, Refuses, Cut, Kernel};

}  // namespace sl::algo_symmetric

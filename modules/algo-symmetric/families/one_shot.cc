// SPDX-License-Identifier: Apache-2.0
//
// One-shot packets: every rank pushes to each peer what that peer takes, as packets that carry their epoch
// (kernels/packets/one_shot.h, kernels/packets/prompt.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/family.h"
#include "modules/algo-symmetric/families/packets.h"
#include "modules/algo-symmetric/image_shelf.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to what 2 H200 took; odd ones to 2 to 4 H200; on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md).
constexpr Costs kMove = {{1800, 200}, {1800, 200}, {4400, 25}};
constexpr Costs kReduce = {{1950, 170}, {1950, 170}, {4400, 25}};

const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  return RefusesOneShot(kLlKind, op, size, settings);
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const PacketCosts costs = {CostOf(kMove, op, settings), CostOf(kReduce, op, settings)};
  return CutOneShot(kLlKind, costs, op, rank, size, settings);
}

// Formats are in the order of sl_datatype_t; what computes nothing comes behind them.
KernelRef Kernel(bool reduces, sl_datatype_t datatype) { return {kPackets, reduces ? datatype : SL_DATATYPE_COUNT}; }

}  // namespace

const Family families::kOneShot = {
    "symmetric_one_shot", "one-shot packets", Protocol::kOneShot, false, false, Refuses, Cut, Kernel};

}  // namespace sl::algo_symmetric

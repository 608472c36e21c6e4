// SPDX-License-Identifier: Apache-2.0
//
// One-shot packets without a flag, which have come when they are not blank (kernels/packets/packet_format.h).
#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/family.h"
#include "modules/algo-symmetric/families/packets.h"
#include "modules/algo-symmetric/image_shelf.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to what 2 H200 took; odd ones to 2 to 4 H200; on the host to 2 H100 over PCIe 5 (docs/gpu-performance.md).
constexpr Costs kMove = {{2250, 240}, {4050, 120}, {5100, 22.5}};
constexpr Costs kReduce = {{2550, 236}, {4350, 120}, {5300, 23.5}};

const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  return RefusesOneShot(kLamportKind, op, size, settings);
}

Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const PacketCosts costs = {CostOf(kMove, op, settings), CostOf(kReduce, op, settings)};
  return CutOneShot(kLamportKind, costs, op, rank, size, settings);
}

// Formats are in the order of sl_datatype_t; what computes nothing comes behind them.
KernelRef Kernel(bool reduces, sl_datatype_t datatype) { return {kLamport, reduces ? datatype : SL_DATATYPE_COUNT}; }

}  // namespace

const Family families::kLamportOneShot = {
    "symmetric_lamport_one_shot", "one-shot Lamport packets", Protocol::kOneShot, true, false, Refuses, Cut, Kernel};

}  // namespace sl::algo_symmetric

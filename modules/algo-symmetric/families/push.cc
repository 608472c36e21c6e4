// SPDX-License-Identifier: Apache-2.0
//
// Push: contributions to a reduce-scatter are stored to slots of whoever reduces them (kernels/direct/push_reduce.h).
#include <algorithm>

#include "modules/algo-symmetric/families/cost.h"
#include "modules/algo-symmetric/families/direct_cut.h"
#include "modules/algo-symmetric/families/family.h"
#include "modules/algo-symmetric/image_shelf.h"
#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

// Fitted to 2 to 4 H200 (docs/gpu-performance.md).
constexpr Costs kMany = {{17500, 343}, {21000, 255}, {}};
constexpr Costs kFew = {{17300, 358}, {23000, 278}, {}};  // two or three ranks

// What more SMs than another way holds should at least save of the time, where no weight says so.
constexpr double kWorthMoreSms = 1.03;

// Peers store to the slice, hence to no buffer that might be out of reach. On fewer blocks than it takes to push and to
// reduce what the wire carries, direct reductions, which only load, are quicker.
const char* Refuses(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  constexpr uint32_t kFewestSlots = 4;
  if (op.kind != SL_OP_REDUCE_SCATTER) return "it makes reduce-scatters";
  if (op.reduction == SL_PREMUL_SUM) {
    return "scalars of ranks differ, and only stages are multiplied before others read them";
  }
  if (settings.on_host) return "slices lie in host memory";
  if (size < 2 || size > kernels::kReachRanks) return "it is for 2 to 32 ranks";
  const bool has_blocks = settings.budget.Most(settings.staged_blocks) >= PushingBlocks(size);
  if (!has_blocks && !settings.serves_all) return "it may not have the SMs that it takes to push and reduce";
  const bool has_room = kernels::LaneLayout::Of(size, settings.staged_blocks).unit_slots >= kFewestSlots;
  return has_room ? nullptr : "slices have no room for units of so many ranks";
}

// The quicker of the families that serve as long reduce-scatters on fewer SMs.
Choice Elsewhere(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const Choice staged = families::kStaged.cut(op, rank, size, settings);
  if (families::kDirect.refuses(op, size, settings) != nullptr) return staged;
  const Choice direct = families::kDirect.cut(op, rank, size, settings);
  return direct.time_ns <= staged.time_ns ? direct : staged;
}

// Where it holds more SMs than another family and saves too little for that, it is stated to be no quicker.
Choice Cut(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const uint32_t enough = PushingBlocks(size);
  const Cost& cost = CostOf(size <= 3 ? kFew : kMany, op, settings);
  Choice choice = CutDirect({DirectWay::kUnits, cost, enough, enough}, op, rank, size, settings);
  if (settings.budget.weight != 0) return choice;
  const Choice other = Elsewhere(op, rank, size, settings);
  const bool pays = kWorthMoreSms * static_cast<double>(choice.time_ns) <= static_cast<double>(other.time_ns);
  if (choice.blocks > other.blocks && !pays) choice.time_ns = std::max(choice.time_ns, other.time_ns + 1);
  return choice;
}

KernelRef Kernel(bool, sl_datatype_t datatype) { return {kPushReductions, datatype}; }

}  // namespace

const Family families::kPush = {"symmetric_push", "pushes", Protocol::kUnits, false, true, Refuses, Cut, Kernel};

}  // namespace sl::algo_symmetric

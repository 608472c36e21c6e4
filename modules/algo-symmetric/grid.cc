// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/grid.h"

#include <algorithm>

#include "sdk/datatype.h"

namespace sl::algo_symmetric {

SmBudget SmBudget::Of(const sl_comm_shape_t& shape) {
  if (shape.struct_size < SL_COMM_SHAPE_SIZE_1_3) return {};
  return {shape.processors_min, shape.processors_max, shape.processor_weight};
}

uint64_t GridWork::NanosecondsOn(uint32_t blocks) const {
  const uint32_t needed = std::max(std::min(wanted, enough), 1u);
  const double part = blocks < needed ? static_cast<double>(blocks) / needed : 1;
  return static_cast<uint64_t>(cost.start_ns + bytes / (cost.bytes_per_ns * part));
}

uint32_t BlocksForWire(sl_op_kind_t kind, uint32_t size) {
  return HasReduction(kind) ? kReducingBlocks : WithHomeWork(kStoringBlocks, size);
}

double Weighed(uint64_t time_ns, uint32_t blocks, const SmBudget& budget) {
  return static_cast<double>(time_ns) * (1000 + static_cast<double>(budget.weight) * blocks);
}

uint32_t BlocksFor(const GridWork& work, uint32_t most, const SmBudget& budget) {
  const uint32_t highest = std::max(budget.Most(most), work.fewest);
  const uint32_t lowest = std::clamp(budget.least, work.fewest, highest);
  uint32_t best = std::clamp(work.wanted, lowest, highest);
  if (budget.weight == 0) return best;
  for (uint32_t fewer = best - 1; fewer >= lowest; --fewer) {
    const double cost = Weighed(work.NanosecondsOn(fewer), fewer, budget);
    if (cost <= Weighed(work.NanosecondsOn(best), best, budget)) best = fewer;
  }
  return best;
}

}  // namespace sl::algo_symmetric

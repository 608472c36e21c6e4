// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's selector would choose of the families alone, and a family whether it pays or not.
#pragma once

#include <string_view>

#include "modules/algo-symmetric/families/family.h"

namespace sl::algo_symmetric {

// The cheapest; the first name of equals.
inline Choice Choose(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  Choice best{};
  double least = 0;
  for (const Family* family : kFamilies) {
    if (family->refuses(op, size, settings) != nullptr) continue;
    const Choice choice = Cut(*family, op, rank, size, settings);
    const double cost = Weighed(choice.time_ns, choice.blocks, settings.budget);
    const bool is_first = best.family == nullptr || std::string_view(family->name) < best.family->name;
    if (best.family != nullptr && (cost > least || (cost == least && !is_first))) continue;
    best = choice;
    least = cost;
  }
  return best;
}

// By this family, whether it pays or not; what it cannot serve goes in rounds.
inline Choice ChooseOf(const Family& family, const sl_op_t& op, uint32_t rank, uint32_t size, GpuSettings settings) {
  settings.serves_all = true;
  const bool can = family.refuses(op, size, settings) == nullptr;
  return Cut(can ? family : families::kStaged, op, rank, size, settings);
}

}  // namespace sl::algo_symmetric

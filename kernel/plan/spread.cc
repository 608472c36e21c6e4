// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/spread.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace sl::kernel {

Spread SpreadOf(const sl_comm_shape_t& shape) {
  if (shape.host_of == nullptr) return {1, shape.size, shape.size};
  std::map<std::string_view, uint32_t> ranks;
  for (uint32_t rank = 0; rank < shape.size; ++rank) ++ranks[shape.host_of[rank]];
  Spread spread{static_cast<uint32_t>(ranks.size()), shape.size, 0};
  for (const auto& [host, count] : ranks) {
    spread.fewest = std::min(spread.fewest, count);
    spread.most = std::max(spread.most, count);
  }
  return spread;
}

}  // namespace sl::kernel

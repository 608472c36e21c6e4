// SPDX-License-Identifier: Apache-2.0
//
// Which of several ids a rank reports to: groups of neighbouring ranks in the order of the ids, the first ones larger
// by one where the numbers do not divide, as NCCL spreads ranks over the roots of ncclCommInitRankScalable.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sl::kernel {

struct IdGroups {
  uint32_t ranks;
  uint32_t ids;  // at most as many

  // `group` may be `ids`, behind the last one.
  uint32_t First(uint32_t group) const { return group * (ranks / ids) + std::min(group, ranks % ids); }
  uint32_t Size(uint32_t group) const { return First(group + 1) - First(group); }
  uint32_t Of(uint32_t rank) const {
    const uint32_t large = ranks % ids * (ranks / ids + 1);  // ranks in larger groups
    return rank < large ? rank / (ranks / ids + 1) : ranks % ids + (rank - large) / (ranks / ids);
  }
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The control tree: a binary heap over the ranks, so that depth is O(log n) and every rank has at most three
// neighbours.
#pragma once

#include <cstdint>
#include <vector>

namespace sl::kernel {

inline uint32_t ParentOf(uint32_t rank) { return (rank - 1) / 2; }

inline std::vector<uint32_t> ChildrenOf(uint32_t rank, uint32_t size) {
  std::vector<uint32_t> children;
  for (uint64_t child : {uint64_t{rank} * 2 + 1, uint64_t{rank} * 2 + 2}) {
    if (child < size) children.push_back(static_cast<uint32_t>(child));
  }
  return children;
}

}  // namespace sl::kernel

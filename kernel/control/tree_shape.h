// SPDX-License-Identifier: Apache-2.0
//
// The control tree: a binary heap over the ranks, so that depth is O(log n) and every rank has at most three
// neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/control/endpoint.h"

namespace sl::kernel {

inline uint32_t ParentOf(uint32_t rank) { return (rank - 1) / 2; }

inline std::vector<uint32_t> ChildrenOf(uint32_t rank, uint32_t size) {
  std::vector<uint32_t> children;
  for (uint64_t child : {uint64_t{rank} * 2 + 1, uint64_t{rank} * 2 + 2}) {
    if (child < size) children.push_back(static_cast<uint32_t>(child));
  }
  return children;
}

// Where a rank's neighbours are called.
struct TreeNeighbours {
  Endpoint parent;                 // zero for rank 0
  std::vector<Endpoint> children;  // in the order of ChildrenOf

  // `endpoint`: of a rank.
  template <typename EndpointOf>
  static TreeNeighbours Of(uint32_t rank, uint32_t size, const EndpointOf& endpoint) {
    TreeNeighbours neighbours;
    if (rank != 0) neighbours.parent = endpoint(ParentOf(rank));
    for (const uint32_t child : ChildrenOf(rank, size)) neighbours.children.push_back(endpoint(child));
    return neighbours;
  }
};

}  // namespace sl::kernel

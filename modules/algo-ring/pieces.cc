// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include <algorithm>
#include <map>
#include <string>

namespace sl::algo_ring {
Shape Shape::Of(const sl_comm_shape_t& shape) {
  std::map<std::string, uint32_t> ranks_of;
  for (uint32_t rank = 0; rank < shape.size; ++rank) ++ranks_of[shape.host_of == nullptr ? "" : shape.host_of[rank]];
  uint32_t most = 0;
  for (const auto& [host, ranks] : ranks_of) most = std::max(most, ranks);
  return {shape.rank, shape.size, shape.link_chunk_bytes, shape.lanes, shape.link_slots, ranks_of.size() == 1, most};
}

Pieces CutBlock(const Shape& shape, uint64_t length, uint64_t element_bytes) {
  return CutEvenly(length, 1, LongestChunk(shape.chunk_bytes, element_bytes));
}

Pieces CutPipelined(const Shape& shape, uint64_t length, uint64_t element_bytes, uint64_t wanted) {
  const uint64_t useful = std::max<uint64_t>(length * element_bytes / kPipelineBytes, 1);
  return CutEvenly(length, std::min(wanted, useful), LongestChunk(shape.chunk_bytes, element_bytes));
}

}  // namespace sl::algo_ring

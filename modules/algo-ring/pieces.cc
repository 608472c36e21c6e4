// SPDX-License-Identifier: Apache-2.0
#include "pieces.h"

#include <algorithm>
#include <map>
#include <string>

namespace sl::algo_ring {
namespace {

uint64_t DivideUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }
uint64_t RoundUp(uint64_t value, uint64_t to) { return DivideUp(value, to) * to; }

Pieces Even(uint64_t length, uint64_t rounds, uint64_t largest) {
  if (length == 0) return {1, 0};
  const uint64_t chunk = std::min(RoundUp(DivideUp(length, rounds), kGrain), largest);
  return {chunk, DivideUp(length, chunk)};
}

// The largest chunk in elements; a multiple of kGrain when links carry that many.
uint64_t LargestChunk(const Shape& shape, uint64_t element_bytes) {
  const uint64_t elements = shape.chunk_bytes / element_bytes;
  return elements > kGrain ? elements / kGrain * kGrain : std::max<uint64_t>(elements, 1);
}

}  // namespace

Shape Shape::Of(const sl_comm_shape_t& shape) {
  std::map<std::string, uint32_t> ranks_of;
  for (uint32_t rank = 0; rank < shape.size; ++rank) ++ranks_of[shape.host_of == nullptr ? "" : shape.host_of[rank]];
  uint32_t most = 0;
  for (const auto& [host, ranks] : ranks_of) most = std::max(most, ranks);
  return {shape.rank, shape.size, shape.link_chunk_bytes, shape.lanes, shape.link_slots, ranks_of.size() == 1, most};
}

uint64_t BlockOf(uint64_t count, uint32_t parts) { return RoundUp(DivideUp(count, parts), kGrain); }

Pieces CutBlock(const Shape& shape, uint64_t length, uint64_t element_bytes) {
  const uint64_t largest = LargestChunk(shape, element_bytes);
  return Even(length, std::max<uint64_t>(DivideUp(length, largest), 1), largest);
}

Pieces CutPipelined(const Shape& shape, uint64_t length, uint64_t element_bytes, uint64_t wanted) {
  const uint64_t largest = LargestChunk(shape, element_bytes);
  const uint64_t useful = std::max<uint64_t>(length * element_bytes / kPipelineBytes, 1);
  const uint64_t rounds = std::max(DivideUp(length, largest), std::min(wanted, useful));
  return Even(length, std::max<uint64_t>(rounds, 1), largest);
}

sl_plan_desc_t Describe(const Shape& shape, const Pieces& pieces, const sl_geometry_t& send,
                        const sl_geometry_t& recv) {
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = shape.size;
  desc.chunk = pieces.chunk;
  desc.rounds = pieces.rounds;
  desc.send = send;
  desc.recv = recv;
  desc.credits = 1;
  return desc;
}

}  // namespace sl::algo_ring

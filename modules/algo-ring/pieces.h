// SPDX-License-Identifier: Apache-2.0
//
// How an operation's elements are cut: into blocks, one a rank, and blocks into chunks, one a round.
#pragma once

#include <cstdint>

#include "sl_algorithm.h"

namespace sl::algo_ring {

// Blocks and chunks are multiples of this many elements, but for the last ones, so that vector code stays aligned.
constexpr uint64_t kGrain = 16;
// Pipelined plans cut what fits one chunk into smaller ones, down to this, so that ranks work at the same time.
constexpr uint64_t kPipelineBytes = 8192;

// Facts about the communicator that plans and costs depend on, equal on all ranks but for `rank`.
struct Shape {
  uint32_t rank;
  uint32_t size;
  uint64_t chunk_bytes;  // largest chunk of a link
  uint32_t link_lanes;
  uint32_t link_slots;
  bool one_host;            // all ranks are on one host
  uint32_t ranks_per_host;  // of the fullest host

  static Shape Of(const sl_comm_shape_t& shape);

  uint32_t Next(uint32_t distance = 1) const { return (rank + distance) % size; }
  uint32_t Previous(uint32_t distance = 1) const { return (rank + size - distance % size) % size; }
};

// How blocks of `length` elements are cut.
struct Pieces {
  uint64_t chunk;
  uint64_t rounds;
};

// The whole is cut into `parts` blocks of equal length, a multiple of kGrain; the last ones may be shorter or empty.
uint64_t BlockOf(uint64_t count, uint32_t parts);

// As few rounds as links allow, of even length.
Pieces CutBlock(const Shape& shape, uint64_t length, uint64_t element_bytes);
// At least `wanted` rounds, where chunks do not become smaller than kPipelineBytes.
Pieces CutPipelined(const Shape& shape, uint64_t length, uint64_t element_bytes, uint64_t wanted);

// `count` elements of each of `blocks` consecutive blocks; one block when the buffer is not split.
constexpr sl_geometry_t Blocks(uint64_t count, uint32_t blocks) { return {count, count, count * blocks}; }
// `count` elements cut into blocks of `block`.
constexpr sl_geometry_t Split(uint64_t count, uint64_t block) { return {block, block, count}; }

sl_plan_desc_t Describe(const Shape& shape, const Pieces& pieces, const sl_geometry_t& send, const sl_geometry_t& recv);

}  // namespace sl::algo_ring

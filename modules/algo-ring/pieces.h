// SPDX-License-Identifier: Apache-2.0
//
// How a communicator's operations are cut: into blocks, one a rank, and blocks into chunks, one a round.
#pragma once

#include <cstdint>

#include "sdk/plan_cut.h"
#include "sl_algorithm.h"

namespace sl::algo_ring {

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

// As few rounds as links allow, of even length.
Pieces CutBlock(const Shape& shape, uint64_t length, uint64_t element_bytes);
// At least `wanted` rounds, where chunks do not become smaller than kPipelineBytes.
Pieces CutPipelined(const Shape& shape, uint64_t length, uint64_t element_bytes, uint64_t wanted);

}  // namespace sl::algo_ring

// SPDX-License-Identifier: Apache-2.0
//
// What plans depend on beside the operation, equal on all ranks but for the rank's own place; and how they cut buffers.
#pragma once

#include <cstdint>

#include "hosts.h"
#include "sdk/plan_cut.h"
#include "sl_algorithm.h"

namespace sl::algo_two_level {

struct Shape {
  Hosts hosts;
  uint64_t chunk_bytes;  // largest chunk of a link
  uint32_t link_lanes;
  uint32_t link_slots;

  static Shape Of(const sl_comm_shape_t& shape);

  Pieces CutBlock(const sl_op_t& op, uint64_t length) const;
  sl_plan_desc_t Describe(const sl_op_t& op, uint64_t length, uint32_t blocks, const sl_geometry_t& send,
                          const sl_geometry_t& recv) const;
  // Shards of a buffer that is cut freely: fewer where they would be so short that a message costs more than it
  // carries.
  uint32_t ShardsFor(const sl_op_t& op) const;
  // Plan lanes for buffers that are cut freely: several, where every block fills a chunk.
  uint32_t LanesFor(const sl_op_t& op, uint32_t blocks) const;
  // How many times each of so many blocks of an all-reduce is cut again, into waves that follow each other: where they
  // fill chunks and links have the slots, two for a wave.
  uint32_t WavesFor(const sl_op_t& op, uint32_t blocks) const;
  // Chunks that one rank sends to one of another host before the other takes the first.
  uint32_t Incast() const { return static_cast<uint32_t>(DivideUp(hosts.most(), hosts.shards)); }
};

}  // namespace sl::algo_two_level

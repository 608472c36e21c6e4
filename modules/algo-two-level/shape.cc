// SPDX-License-Identifier: Apache-2.0
#include "shape.h"

#include <algorithm>

#include "sdk/datatype.h"

namespace sl::algo_two_level {

Shape Shape::Of(const sl_comm_shape_t& shape) {
  return {Hosts::Of(shape), shape.link_chunk_bytes, shape.lanes, shape.link_slots};
}

Pieces Shape::CutBlock(const sl_op_t& op, uint64_t length) const {
  return CutEvenly(length, 1, LongestChunk(chunk_bytes, DatatypeBytes(op.datatype)));
}

sl_plan_desc_t Shape::Describe(const sl_op_t& op, uint64_t length, uint32_t blocks, const sl_geometry_t& send,
                               const sl_geometry_t& recv) const {
  return DescribePlan(blocks, CutBlock(op, length), send, recv);
}

uint32_t Shape::ShardsFor(const sl_op_t& op) const {
  constexpr uint64_t kShardBytes = 16384;
  const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / kShardBytes, 1, hosts.shards));
}

uint32_t Shape::LanesFor(const sl_op_t& op, uint32_t blocks) const {
  const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
  return bytes / blocks >= 2 * chunk_bytes ? std::min(link_lanes, 2u) : 1;
}

uint32_t Shape::WavesFor(const sl_op_t& op, uint32_t blocks) const {
  constexpr uint64_t kMost = 3;
  const uint64_t chunks = op.count * DatatypeBytes(op.datatype) / blocks / chunk_bytes;
  const uint64_t room = link_slots / 2;
  return static_cast<uint32_t>(std::clamp<uint64_t>(std::min(chunks, room), 1, kMost));
}

}  // namespace sl::algo_two_level

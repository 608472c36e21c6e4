// SPDX-License-Identifier: Apache-2.0
//
// How plans cut what they move: a buffer into blocks, a block into chunks, one a round. Lengths are in elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sl_algorithm.h"

namespace sl {

// Blocks and chunks are multiples of this many elements, but for the last ones, so that vector code stays aligned.
constexpr uint64_t kGrain = 16;

constexpr uint64_t DivideUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0 ? 1 : 0); }
constexpr uint64_t RoundUp(uint64_t value, uint64_t to) { return DivideUp(value, to) * to; }

// The whole is cut into `parts` blocks of equal length, a multiple of kGrain; the last ones may be shorter or empty.
constexpr uint64_t BlockOf(uint64_t count, uint32_t parts) { return RoundUp(DivideUp(count, parts), kGrain); }

// How a block is cut.
struct Pieces {
  uint64_t chunk;
  uint64_t rounds;
};

// The longest chunk of a link that carries `chunk_bytes` at once; a multiple of kGrain where so many fit.
constexpr uint64_t LongestChunk(uint64_t chunk_bytes, uint64_t element_bytes) {
  const uint64_t fits = chunk_bytes / element_bytes;
  return fits > kGrain ? fits / kGrain * kGrain : std::max<uint64_t>(fits, 1);
}

// Chunks of a power of two fill packets badly: a system sends at most 64 KiB at once, headers included, so 128 KiB and
// their own header leave a third packet of some hundred bytes, which costs both hosts nearly as much as a full one.
// Measured between two hosts of one machine: 6.3 GB/s in chunks of 128 KiB, 7.1 in chunks of 120. So what takes many
// chunks is cut into ones that are a sixteenth shorter; where they are few, one more would cost more than it saves.
constexpr uint64_t kManyChunks = 8;
constexpr uint64_t ShorterChunk(uint64_t longest) { return longest - longest / 16 / kGrain * kGrain; }

// At least `rounds` rounds of even length, more where a chunk would exceed `longest`; fewer only because of kGrain.
constexpr Pieces CutEvenly(uint64_t length, uint64_t rounds, uint64_t longest) {
  if (length == 0) return {1, 0};
  if (DivideUp(length, longest) >= kManyChunks) longest = ShorterChunk(longest);
  const uint64_t wanted = std::max<uint64_t>({rounds, DivideUp(length, longest), 1});
  const uint64_t chunk = std::min(RoundUp(DivideUp(length, wanted), kGrain), longest);
  return {chunk, DivideUp(length, chunk)};
}

// `count` elements of each of `blocks` consecutive blocks; one block when the buffer is not split.
constexpr sl_geometry_t Blocks(uint64_t count, uint32_t blocks) { return {count, count, count * blocks}; }
// `count` elements cut into blocks of `block`.
constexpr sl_geometry_t Split(uint64_t count, uint64_t block) { return {block, block, count}; }

// The frame of a plan without scratch memory whose links need one slot.
constexpr sl_plan_desc_t DescribePlan(uint32_t block_modulus, const Pieces& pieces, const sl_geometry_t& send,
                                      const sl_geometry_t& recv) {
  sl_plan_desc_t desc{};
  desc.struct_size = sizeof(desc);
  desc.block_modulus = block_modulus;
  desc.chunk = pieces.chunk;
  desc.rounds = pieces.rounds;
  desc.send = send;
  desc.recv = recv;
  desc.credits = 1;
  return desc;
}

}  // namespace sl

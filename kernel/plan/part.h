// SPDX-License-Identifier: Apache-2.0
//
// Where the part of a block lies: the one piece of arithmetic that everybody who reads a plan shares (builder, engine,
// verifier, simulator), so that both ends of a link always agree on lengths.
//
//   part(block, round) = elements [block * stride + round * chunk, +chunk), cut at block * stride + length(block)
//
// All numbers are elements. The builder has refused geometries whose products would overflow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sl_algorithm.h"

namespace sl::kernel {

struct Part {
  uint64_t offset;    // from the start of the buffer; meaningful also when `elements` is 0
  uint64_t elements;  // 0: the step is skipped
};

inline uint64_t BlockStart(const sl_geometry_t& geometry, uint32_t block) { return block * geometry.stride; }

// Elements of a whole block; 0 for a block that begins at or after the end.
inline uint64_t BlockLength(const sl_geometry_t& geometry, uint32_t block) {
  const uint64_t start = BlockStart(geometry, block);
  return start >= geometry.total ? 0 : std::min(geometry.length, geometry.total - start);
}

inline Part PartOf(const sl_geometry_t& geometry, uint32_t block, uint64_t chunk, uint64_t round) {
  const uint64_t length = BlockLength(geometry, block);
  const uint64_t first = round * chunk;
  return {BlockStart(geometry, block) + first, first >= length ? 0 : std::min(chunk, length - first)};
}

// The block an operand names at repetition `repetition` (from 0) of its REPEAT: (block + repetition * step) modulo
// `modulus`. `block` is below `modulus`.
inline uint32_t BlockAt(uint32_t block, int32_t step, uint64_t repetition, uint32_t modulus) {
  if (repetition == 0 || step == 0) return block;
  const auto m = static_cast<int64_t>(modulus);
  const int64_t moved = static_cast<int64_t>(repetition % modulus) * (step % m) + block;
  const int64_t wrapped = moved % m;
  return static_cast<uint32_t>(wrapped < 0 ? wrapped + m : wrapped);
}

// How many rounds a lane needs to see every element of a block of `length`.
inline uint64_t RoundsFor(uint64_t length, uint64_t chunk) { return chunk == 0 ? 0 : (length + chunk - 1) / chunk; }

}  // namespace sl::kernel

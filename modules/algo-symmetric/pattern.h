// SPDX-License-Identifier: Apache-2.0
//
// Every collective as the same sentence: each rank publishes some blocks, each rank takes one block out of some
// publications, and either reduces or concatenates what it took. The kernels know only patterns.
#pragma once

#include <cstdint>

#include "sdk/device/sync.h"
#include "sl_algorithm.h"

namespace sl::algo_symmetric {

enum class Sources : uint32_t { kNone, kRoot, kAll };

struct Pattern {
  bool publishes;           // this rank's data is wanted by somebody
  uint32_t blocks;          // in a publication
  uint64_t block_elements;  // of every block but perhaps the last
  uint64_t total_elements;  // of a publication
  Sources sources;          // whose publications this rank takes a block of
  uint32_t source_block;    // which one
  bool reduces;             // takes become one block; else they stand side by side in rank order
  bool regathers;           // two-shot: reduced blocks are published again, and this rank collects them
  bool results_wanted;      // two-shot: somebody regathers

  // Elements of `block` that exist.
  SL_HD uint64_t Length(uint64_t block) const {
    uint64_t begin = block * block_elements;
    if (begin >= total_elements) return 0;
    return total_elements - begin < block_elements ? total_elements - begin : block_elements;
  }
};

// The one-shot pattern of `op` for `rank` of `size`.
inline Pattern OneShot(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const bool is_root = op.root == static_cast<int32_t>(rank);
  const uint64_t n = op.count;
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      return {true, 1, n, n, Sources::kAll, 0, true, false, false};
    case SL_OP_ALL_GATHER:
      return {true, 1, n, n, Sources::kAll, 0, false, false, false};
    case SL_OP_REDUCE_SCATTER:
      return {true, size, n, n * size, Sources::kAll, rank, true, false, false};
    case SL_OP_BROADCAST:
      return {is_root, 1, n, n, Sources::kRoot, 0, false, false, false};
    case SL_OP_REDUCE:
      return {true, 1, n, n, is_root ? Sources::kAll : Sources::kNone, 0, true, false, false};
    case SL_OP_ALL_TO_ALL:
      return {true, size, n, n * size, Sources::kAll, rank, false, false, false};
    case SL_OP_GATHER:
      return {true, 1, n, n, is_root ? Sources::kAll : Sources::kNone, 0, false, false, false};
    default:
      return {is_root, size, n, n * size, Sources::kRoot, rank, false, false, false};  // scatter
  }
}

// The pattern for long messages: reductions to all or to a root are cut into one block a rank, reduced there and
// collected; all others are the one-shot pattern, run in rounds. Blocks are whole cache lines.
inline Pattern Pipelined(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t element_bytes) {
  if (op.kind != SL_OP_ALL_REDUCE && op.kind != SL_OP_REDUCE) return OneShot(op, rank, size);
  const uint64_t line = 64 / element_bytes;
  const uint64_t block = ((op.count + size - 1) / size + line - 1) / line * line;
  const bool collects = op.kind == SL_OP_ALL_REDUCE || op.root == static_cast<int32_t>(rank);
  return {true, size, block, op.count, Sources::kAll, rank, true, collects, true};
}

}  // namespace sl::algo_symmetric

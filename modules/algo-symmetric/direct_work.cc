// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/direct_work.h"

#include <algorithm>

#include "sdk/datatype.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {

using kernels::DirectKind;
using kernels::DirectWork;

namespace {

// Blocks of the direct reduction or broadcast of a vector: one for every owner, in whole lines.
DirectWork OwnedBlock(const sl_op_t& op, uint64_t element_bytes, uint32_t owner, uint32_t owners) {
  const uint64_t line = kernels::kWireLineBytes / element_bytes;
  const uint64_t block = DivideUp(DivideUp(op.count, owners), line) * line;
  const uint64_t begin = std::min(owner * block, op.count);
  DirectWork work{};
  work.taker = work.spared = -1;
  work.bytes = std::min(block, op.count - begin) * element_bytes;
  work.from = work.to = begin * element_bytes;
  return work;
}

}  // namespace

DirectWork DirectOf(const sl_op_t& op, uint32_t rank, uint32_t size, bool pushes) {
  const uint64_t element_bytes = DatatypeBytes(op.datatype);
  const uint64_t bytes = op.count * element_bytes;
  const auto own = static_cast<int32_t>(rank);
  const bool is_root = op.root == own;
  const uint32_t behind_root = (rank + size - static_cast<uint32_t>(std::max(op.root, 0)) - 1) % size;
  DirectWork work{};
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      work = OwnedBlock(op, element_bytes, rank, size);
      work.kind = DirectKind::kReduce;
      return work;
    case SL_OP_REDUCE:
      work = is_root ? DirectWork{} : OwnedBlock(op, element_bytes, behind_root, size - 1);
      work.kind = DirectKind::kReduce;
      work.taker = op.root;
      return work;
    case SL_OP_REDUCE_SCATTER:
      return {DirectKind::kReduce, -1, own, -1, bytes, 0, rank * bytes, bytes, 0, 0};
    case SL_OP_BROADCAST:
      if (is_root) return {DirectKind::kSpread, own, own, -1, bytes, 0, 0, 0, 0, 0};  // to its own receive buffer
      work = OwnedBlock(op, element_bytes, behind_root, size - 1);
      work.kind = DirectKind::kSpread;
      work.giver = work.spared = op.root;
      return work;
    case SL_OP_GATHER:
      return {DirectKind::kSpread, own, op.root, -1, bytes, 0, 0, 0, rank * bytes, 0};
    case SL_OP_SCATTER:
      return {DirectKind::kSpread, op.root, own, -1, bytes, 0, rank * bytes, 0, 0, 0};
    case SL_OP_ALL_GATHER:
      if (pushes) return {DirectKind::kPush, -1, -1, -1, bytes, 0, 0, 0, rank * bytes, 0};
      return {DirectKind::kPull, -1, -1, -1, bytes, 0, 0, 0, 0, bytes};
    default:  // all-to-all
      if (pushes) return {DirectKind::kPush, -1, -1, -1, bytes, 0, 0, bytes, rank * bytes, 0};
      return {DirectKind::kPull, -1, -1, -1, bytes, 0, rank * bytes, 0, 0, bytes};
  }
}

uint64_t BytesDrawn(const DirectWork& work, uint32_t size) {
  const bool pairs = work.kind == DirectKind::kPull || work.kind == DirectKind::kPush;
  return work.bytes * (pairs ? size : 1);
}

void Draw(uint32_t size, uint32_t blocks, bool in_bulk, DirectWork* work) {
  const uint64_t bytes = BytesDrawn(*work, size);
  work->blocks = blocks;
  work->in_bulk = in_bulk;
  work->piece_bytes = in_bulk ? kernels::DrawnBytes(bytes, blocks * kernels::kBulkPipes, kernels::kMostBulkPiece)
                              : kernels::DrawnBytes(bytes, blocks * (kernels::kThreads / 32));
}

Reached ReachedOf(const sl_op_t& op, uint32_t rank, bool pushes) {
  const bool is_root = op.root == static_cast<int32_t>(rank);
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      return {true, true};
    case SL_OP_REDUCE:
      return {true, is_root};
    case SL_OP_REDUCE_SCATTER:
      return {true, false};
    case SL_OP_BROADCAST:
      return {is_root, !is_root};
    case SL_OP_GATHER:
      return {false, is_root};
    case SL_OP_SCATTER:
      return {is_root, false};
    default:
      return {!pushes, pushes};
  }
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
//
// A send or a receive, as those who launch it see it.
#pragma once

#include "sdk/datatype.h"
#include "sl_algorithm.h"

namespace sl::algo_symmetric {

inline bool IsTransfer(const sl_op_t& op) { return op.kind == SL_OP_SEND || op.kind == SL_OP_RECV; }

inline uint64_t BytesOf(const sl_op_t& op) { return op.count * DatatypeBytes(op.datatype); }

// Sends are only read.
inline uint8_t* UserOf(const sl_op_t& op) {
  void* user = op.kind == SL_OP_RECV ? op.recv : const_cast<void*>(op.send);  // NOLINT(*-pro-type-const-cast)
  return static_cast<uint8_t*>(user);
}

// The place of its queue among those of `ranks`: [direction][peer].
inline size_t QueueOf(const sl_op_t& op, uint32_t ranks) {
  return (op.kind == SL_OP_RECV ? ranks : 0) + static_cast<size_t>(op.peer);
}

}  // namespace sl::algo_symmetric

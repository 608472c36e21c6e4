// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-sequence/algorithm.h"

#include <cstdio>

#include "sdk/datatype.h"

namespace {

// Blocks are whole lines, so that all of them are aligned as the buffer is.
constexpr uint64_t kLineBytes = 128;
// Of less, two operations take longer to begin than one takes to end.
constexpr uint64_t kLeastBlockBytes = 64 << 10;

}  // namespace

uint64_t sl_algorithm_t::BlockOf(const sl_op_t& op) const {
  const uint64_t line = kLineBytes / sl::DatatypeBytes(op.datatype);
  const uint64_t block = op.count / (size_ * line) * line;
  return block * sl::DatatypeBytes(op.datatype) >= kLeastBlockBytes ? block : 0;
}

const char* sl_algorithm_t::Refuses(const sl_op_t& op) const {
  if (op.kind != SL_OP_ALL_REDUCE) return "only an all-reduce is two operations";
  return BlockOf(op) != 0 ? nullptr : "two operations take longer to begin than one";
}

sl_status_t sl_algorithm_t::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->run = SL_RUN_SEQUENCE;
  if (const char* reason = Refuses(op); reason != nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return SL_ERR_UNSUPPORTED;
  }
  out->time_ns = 0;
  out->processors = 0;
  out->determinism = SL_DETERMINISM_WORLD_SIZE;
  out->scratch_bytes = 0;
  std::snprintf(out->reason, sizeof(out->reason), "reduce_scatter, then all_gather");
  return SL_OK;
}

sl::Status sl_algorithm_t::Parts(const sl_op_t& op, std::span<sl_part_t> out_parts, uint32_t* out_count) const {
  if (const char* reason = Refuses(op); reason != nullptr) return {SL_ERR_UNSUPPORTED, reason};
  const uint64_t unit = sl::DatatypeBytes(op.datatype);
  const uint64_t block = BlockOf(op);
  const uint64_t own = rank_ * block * unit;
  const uint64_t whole = size_ * block;
  const uint32_t symmetric = SL_HAS(&op, sl_op_t, symmetric) ? op.symmetric : 0;
  // A rank's block lies at another offset than the other ranks'.
  out_parts[0] = {sizeof(sl_part_t),
                  SL_OP_REDUCE_SCATTER,
                  -1,
                  symmetric & SL_OP_SEND_SYMMETRIC,
                  block,
                  SL_BUFFER_SEND,
                  SL_BUFFER_RECV,
                  0,
                  own};
  out_parts[1] = {sizeof(sl_part_t),
                  SL_OP_ALL_GATHER,
                  -1,
                  symmetric & SL_OP_RECV_SYMMETRIC,
                  block,
                  SL_BUFFER_RECV,
                  SL_BUFFER_RECV,
                  own,
                  0};
  *out_count = 2;
  if (whole == op.count) return {};
  out_parts[2] = {sizeof(sl_part_t), SL_OP_ALL_REDUCE, -1,           symmetric,   op.count - whole,
                  SL_BUFFER_SEND,    SL_BUFFER_RECV,   whole * unit, whole * unit};
  *out_count = 3;
  return {};
}

// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/copy_list.h"

#include <fmt/format.h>

#include "kernel/events/last_error.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// More than any list of a sane algorithm: several copies for each pair of phase and rank.
constexpr uint32_t kMostCopies = 1 << 20;

uint64_t BufferBytes(uint32_t buffer, const sl_op_t& op, uint32_t rank, uint32_t size) {
  const uint64_t elements = buffer == SL_BUFFER_SEND ? SendElements(op, rank, size) : RecvElements(op, rank, size);
  return elements * DatatypeBytes(op.datatype);
}

// One end of a copy: "" when the rank `own` may touch it.
const char* WrongEnd(uint32_t at, uint32_t buffer, uint64_t offset, uint64_t bytes, const sl_op_t& op, uint32_t own,
                     uint32_t size) {
  const uint64_t there = BufferBytes(buffer, op, at, size);
  if (offset > there || bytes > there - offset) return "it reaches out of a buffer";
  const uint32_t needed = buffer == SL_BUFFER_SEND ? SL_OP_SEND_SYMMETRIC : SL_OP_RECV_SYMMETRIC;
  if (at != own && (op.symmetric & needed) == 0) return "another rank's buffer is not symmetric";
  return nullptr;
}

Status Wrong(const sl_op_t& op, size_t index, const char* what) {
  return {SL_ERR_INTERNAL, fmt::format("a wrong copy for {}, number {}: {}", OpKindName(op.kind), index, what)};
}

}  // namespace

const char* WrongCopy(const sl_copy_t& copy, const sl_op_t& op, uint32_t rank, uint32_t size) {
  if (copy.phase >= SL_COPY_PHASES) return "there is no such phase";
  if (copy.bytes == 0) return nullptr;
  if (copy.from_rank >= size || copy.to_rank >= size) return "there is no such rank";
  if (copy.from_rank != rank && copy.to_rank != rank) return "neither end is this rank's";
  if (copy.from_buffer != SL_BUFFER_SEND && copy.from_buffer != SL_BUFFER_RECV) return "there is no such source";
  if (copy.to_buffer != SL_BUFFER_RECV) return "its target is no receive buffer";
  if (const char* wrong = WrongEnd(copy.from_rank, copy.from_buffer, copy.from, copy.bytes, op, rank, size)) {
    return wrong;
  }
  return WrongEnd(copy.to_rank, copy.to_buffer, copy.to, copy.bytes, op, rank, size);
}

Result<CopyList> ListCopies(const sl_algorithm_ops_t& ops, sl_algorithm_t* algorithm, const sl_op_t& op,
                            const sl_comm_shape_t& shape) {
  CopyList list;
  list.copies.resize(2 * shape.size);
  uint32_t count = 0;
  sl_status_t status = ops.copies(algorithm, &op, list.copies.data(), 2 * shape.size, &count);
  if (status == SL_ERR_LIMIT && count <= kMostCopies) {
    list.copies.resize(count);
    status = ops.copies(algorithm, &op, list.copies.data(), count, &count);
  }
  if (status != SL_OK) return ModuleFailure(status);
  if (count > list.copies.size()) return Status(SL_ERR_INTERNAL, "it lists more copies than there is room for");
  list.copies.resize(count);
  uint32_t phase = 0;
  for (size_t i = 0; i < list.copies.size(); ++i) {
    const char* wrong = WrongCopy(list.copies[i], op, shape.rank, shape.size);
    if (wrong == nullptr && list.copies[i].phase < phase) wrong = "phases do not ascend";
    if (wrong != nullptr) return Wrong(op, i, wrong);
    phase = list.copies[i].phase;
  }
  list.phases = phase + 1;
  return list;
}

}  // namespace sl::kernel

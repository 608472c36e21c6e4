// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/part_list.h"

#include <fmt/format.h>

#include "kernel/events/last_error.h"
#include "kernel/plan/call_settings.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

const char* RootedWrongly(const sl_part_t& part, uint32_t size) {
  switch (part.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_ALL_TO_ALL:
      return part.root == -1 ? nullptr : "its kind has no root";
    case SL_OP_BROADCAST:
    case SL_OP_REDUCE:
    case SL_OP_GATHER:
    case SL_OP_SCATTER:
      return part.root >= 0 && static_cast<uint32_t>(part.root) < size ? nullptr : "there is no such root";
    default:
      return "it is no collective";
  }
}

uint32_t SymmetricBit(uint32_t buffer) {
  return buffer == SL_BUFFER_SEND ? SL_OP_SEND_SYMMETRIC : SL_OP_RECV_SYMMETRIC;
}

// So many elements from `offset` on of a buffer of `op`.
bool ReachesOut(uint32_t buffer, uint64_t offset, uint64_t elements, const sl_op_t& op, uint32_t rank, uint32_t size) {
  const uint64_t unit = DatatypeBytes(op.datatype);
  const uint64_t there = buffer == SL_BUFFER_SEND ? SendElements(op, rank, size) : RecvElements(op, rank, size);
  if (elements == 0) return false;
  return offset % unit != 0 || offset / unit > there || elements > there - offset / unit;
}

}  // namespace

const char* WrongPart(const sl_part_t& part, const sl_op_t& op, uint32_t rank, uint32_t size) {
  if (part.struct_size < SL_PART_SIZE_1_6) return "its size is not said";
  if (const char* wrong = RootedWrongly(part, size)) return wrong;
  if (HasReduction(part.kind) && !HasReduction(op.kind)) return "it reduces, and the operation does not";
  if (part.count == 0) return "it moves nothing";
  if (part.send_buffer != SL_BUFFER_SEND && part.send_buffer != SL_BUFFER_RECV) return "there is no such source";
  if (part.recv_buffer != SL_BUFFER_RECV) return "its target is no receive buffer";
  const sl_op_t alone = PartOp(part, op);
  if (ReachesOut(part.send_buffer, part.send, SendElements(alone, rank, size), op, rank, size) ||
      ReachesOut(part.recv_buffer, part.recv, RecvElements(alone, rank, size), op, rank, size)) {
    return "it reaches out of a buffer";
  }
  if ((part.symmetric & ~(SL_OP_SEND_SYMMETRIC | SL_OP_RECV_SYMMETRIC)) != 0) return "there is no such symmetry";
  const uint32_t needed = ((part.symmetric & SL_OP_SEND_SYMMETRIC) != 0 ? SymmetricBit(part.send_buffer) : 0) |
                          ((part.symmetric & SL_OP_RECV_SYMMETRIC) != 0 ? SymmetricBit(part.recv_buffer) : 0);
  return (op.symmetric & needed) == needed ? nullptr : "the operation's buffer is not symmetric";
}

sl_op_t PartOp(const sl_part_t& part, const sl_op_t& op) {
  const auto at = [&op](uint32_t buffer, uint64_t offset) {
    return reinterpret_cast<uintptr_t>(buffer == SL_BUFFER_SEND ? op.send : op.recv) + offset;
  };
  sl_op_t own = op;
  own.kind = part.kind;
  own.root = part.root;
  own.count = part.count;
  own.send = reinterpret_cast<const void*>(at(part.send_buffer, part.send));
  own.recv = reinterpret_cast<void*>(at(part.recv_buffer, part.recv));
  own.symmetric = part.symmetric;
  if (own.settings != 0) own.settings |= kPartBit;
  if (HasReduction(part.kind)) return own;
  own.reduction = SL_SUM;  // as of any operation that does not reduce
  own.scalar_bits = 0;
  own.scalar = nullptr;
  return own;
}

Result<std::vector<sl_part_t>> ListParts(const sl_algorithm_ops_t& ops, sl_algorithm_t* algorithm, const sl_op_t& op,
                                         const sl_comm_shape_t& shape) {
  std::vector<sl_part_t> parts(SL_MOST_PARTS);
  uint32_t count = 0;
  if (ops.parts == nullptr) return Status(SL_ERR_INTERNAL, "it is a sequence without parts");
  if (const sl_status_t status = CallModule("parts", ops.parts, algorithm, &op, parts.data(), &count);
      status != SL_OK) {
    return ModuleFailure(status);
  }
  if (count == 0 || count > parts.size()) {
    return Status(SL_ERR_INTERNAL, fmt::format("{} parts, where there may be 1 to {}", count, parts.size()));
  }
  parts.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (const char* wrong = WrongPart(parts[i], op, shape.rank, shape.size)) {
      return Status(SL_ERR_INTERNAL, fmt::format("a wrong part of {}, number {}: {}", OpKindName(op.kind), i, wrong));
    }
  }
  return parts;
}

}  // namespace sl::kernel

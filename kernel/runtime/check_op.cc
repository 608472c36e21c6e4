// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/check_op.h"

#include <string>

#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

Status Bad(const sl_op_t& op, const std::string& text) {
  return {SL_ERR_INVALID, std::string(OpKindName(op.kind)) + ": " + text};
}

bool NeedsRoot(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

}  // namespace

Status CheckOpArguments(const Communicator& comm, const sl_op_t& op) {
  if (op.kind >= SL_OP_KIND_COUNT) return {SL_ERR_INVALID, "operation kind " + std::to_string(op.kind) + " is unknown"};
  if (op.datatype >= SL_DATATYPE_COUNT) return Bad(op, "data type " + std::to_string(op.datatype) + " is unknown");
  if (HasReduction(op.kind) && op.reduction >= SL_REDUCTION_COUNT) {
    return Bad(op, "reduction " + std::to_string(op.reduction) + " is unknown");
  }
  const auto in_range = [&](int32_t rank) { return rank >= 0 && static_cast<uint32_t>(rank) < comm.size(); };
  if (NeedsRoot(op.kind) && !in_range(op.root)) {
    return Bad(op,
               "root " + std::to_string(op.root) + " is not a rank; ranks are 0 to " + std::to_string(comm.size() - 1));
  }
  if (IsTransfer(op.kind) && !in_range(op.peer)) {
    return Bad(op,
               "peer " + std::to_string(op.peer) + " is not a rank; ranks are 0 to " + std::to_string(comm.size() - 1));
  }
  if (op.settings != 0 && (IsTransfer(op.kind) || comm.call_settings().Find(op.settings) == nullptr)) [[unlikely]] {
    return Bad(op, IsTransfer(op.kind)
                       ? "settings of a call are for collectives"
                       : "its settings are none of this communicator's; call_settings() gives their number");
  }
  if (op.count > kSignatureMaxCount || OpBytes(op, comm.size()) > (uint64_t{1} << 48)) {
    return Bad(op, "count " + std::to_string(op.count) + " is too large; an operation takes up to " +
                       std::to_string(kSignatureMaxCount) + " elements and 2^48 bytes: split it");
  }
  return {};
}

Status CheckOp(const Communicator& comm, const sl_op_t& op) {
  SL_TRY(CheckOpArguments(comm, op));
  if (op.send == nullptr && SendElements(op, comm.rank(), comm.size()) != 0) return Bad(op, "the send buffer is null");
  if (op.recv == nullptr && RecvElements(op, comm.rank(), comm.size()) != 0) {
    return Bad(op, "the receive buffer is null");
  }
  return {};
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/transfer_group.h"

#include "kernel/events/last_error.h"
#include "kernel/runtime/admission.h"
#include "kernel/runtime/check_op.h"
#include "kernel/runtime/op_life.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint32_t kMost = 64;  // of a group that is looked at

// What a rank sends itself; NULL: nothing.
struct SelfPair {
  const sl_op_t* send = nullptr;
  const sl_op_t* recv = nullptr;

  // False when there was one already.
  bool Take(const sl_op_t* op) {
    const sl_op_t*& place = op->kind == SL_OP_SEND ? send : recv;
    if (place != nullptr) return false;
    place = op;
    return true;
  }
  bool IsEmpty() const { return send == nullptr && recv == nullptr; }
  bool IsWhole() const {
    return send != nullptr && recv != nullptr &&
           send->count * DatatypeBytes(send->datatype) == recv->count * DatatypeBytes(recv->datatype);
  }
};

// Whether they are such a group. Arguments have not been checked.
bool AreTransfers(const sl_group_entry_t* entries, uint32_t count, SelfPair* out_self) {
  if (count > kMost) return false;
  const sl_group_entry_t& first = entries[0];
  const auto rank = static_cast<int32_t>(first.comm->comm.rank());
  for (uint32_t i = 0; i < count; ++i) {
    const sl_op_t& op = *entries[i].op;
    if (entries[i].comm != first.comm || entries[i].stream != first.stream) return false;
    if (!IsTransfer(op.kind) || op.count == 0 || op.datatype >= SL_DATATYPE_COUNT) return false;
    if (op.peer == rank && !out_self->Take(&op)) return false;
  }
  return out_self->IsEmpty() || (out_self->IsWhole() && count > 2);
}

// The ones with other ranks in the order of their calls, then the pair with the own one.
void EnterAll(const sl_group_entry_t* entries, uint32_t count, const SelfPair& self, const IssueOrder& order,
              sl_op_t* ops) {
  uint32_t entered = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const sl_op_t* op = entries[i].op;
    if (op != self.send && op != self.recv) EnterTransfer(*op, order, &ops[entered++]);
  }
  if (self.IsEmpty()) return;
  EnterTransfer(*self.send, order, &ops[entered++]);
  EnterTransfer(*self.recv, order, &ops[entered]);
}

}  // namespace

std::optional<Status> IssueTransfers(const sl_group_entry_t* entries, uint32_t count) {
  SelfPair self;
  if (!AreTransfers(entries, count, &self)) return std::nullopt;
  sl_comm_t* handle = entries[0].comm;
  sl_stream_t* stream = entries[0].stream;
  const InCall in_call(handle);
  if (!in_call.is_alone()) [[unlikely]]
    return TwoCallsAtOnce();
  SL_TRY(CheckUsable(handle, *entries[0].op));
  const Device& device = handle->comm.device();
  if (device.is_watched() || handle->relay != nullptr) return std::nullopt;
  for (uint32_t i = 0; i < count; ++i) SL_TRY(CheckOp(handle->comm, *entries[i].op));
  SL_TRY(CheckStream(handle, stream));
  handle->comm.selector()->Collect();
  SL_ASSIGN(const IssueOrder* order, JoinOrder(handle, stream));
  sl_op_t ops[kMost];  // not initialised as a whole, nor are the arguments
  EnterAll(entries, count, self, *order, ops);
  const Result<const Choice*> choice = ChooseForGroup(handle, ops, count);
  if (!choice.ok() || choice.value()->run != SL_RUN_LAUNCH) return std::nullopt;
  alignas(64) uint8_t args[sizeof(Pending::args)];
  sl_launch_t launch;
  if (Status filled = FillGroupLaunch(*choice.value(), ops, count, args, sizeof(args), &launch); !filled.ok()) {
    if (filled.code() == SL_ERR_LIMIT) return std::nullopt;
    return filled;
  }
  handle->CountOperations(count);
  BeginTransfers(handle, ops, count, *choice.value());
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  return status == SL_OK ? MarkEnd(handle, *order, stream) : Status(status, LastError());
}

}  // namespace sl::kernel

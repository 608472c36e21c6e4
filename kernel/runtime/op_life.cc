// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/op_life.h"

#include <fmt/format.h>

#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/ring.h"
#include "kernel/plan/scalar.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/handle.h"
#include "kernel/runtime/judge.h"
#include "kernel/runtime/wait_check.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kCheckIntervalNs = 10'000'000;
constexpr uint32_t kScalarRevision = 2;  // since which algorithms read a scalar in device memory themselves

void EmitOp(const Communicator& comm, const sl_op_t& op, uint32_t kind, uint64_t value, uint64_t value2) {
  if (!EventWanted(kind)) [[likely]]
    return;
  sl_record_t record{};
  record.kind = kind;
  record.rank = comm.rank();
  record.comm_id = comm.id();
  record.op_seq = op.seq;
  record.peer = op.peer;
  record.bytes = OpBytes(op, comm.size());
  record.value = value;
  record.value2 = value2;
  Emit(record);
}

// All but the operation and what lies in windows.
void Prepare(sl_comm_t* handle, Pending* pending) {
  pending->handle = handle;
  pending->run = nullptr;
  pending->send_window = pending->recv_window = nullptr;
  pending->wait.Begin();
}

}  // namespace

void EnterTransfer(const sl_op_t& op, const IssueOrder& order, sl_op_t* entered) {
  *entered = op;
  entered->signature = EncodeSignature(op);
  entered->capture = order.capture;
  entered->symmetric = 0;
  entered->seq = 0;
}

void EnterAgain(const sl_op_t& entered, Pending* pending) {
  Prepare(pending->handle, pending);
  pending->op = entered;
}

void Enter(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending) {
  Communicator& comm = handle->comm;
  Prepare(handle, pending);
  EnterTransfer(op, order, &pending->op);
  const bool collective = IsCollective(op.kind);
  if (collective) pending->op.seq = ++handle->collectives;
  if (collective) comm.op_log()->Write(pending->op.seq, pending->op.signature);
  if (collective && !handle->symmetric_windows.empty()) [[unlikely]]
    FindSymmetricBuffers(pending);
  handle->CountOperations(1);
}

void TellBegin(const Pending& pending, uint32_t choice) {
  EmitOp(pending.handle->comm, pending.op, SL_EVENT_OP_BEGIN, pending.op.kind, choice);
}

void EnterPart(const Pending& whole, const PartChoice& part, Pending* pending) {
  Prepare(whole.handle, pending);
  pending->op = PartOp(part.part, whole.op);
  const auto window_at = [&whole](uint32_t buffer) {
    return buffer == SL_BUFFER_SEND ? whole.send_window : whole.recv_window;
  };
  if ((part.part.symmetric & SL_OP_SEND_SYMMETRIC) != 0) pending->send_window = window_at(part.part.send_buffer);
  if ((part.part.symmetric & SL_OP_RECV_SYMMETRIC) != 0) pending->recv_window = window_at(part.part.recv_buffer);
}

Result<const Choice*> Choose(Pending* pending) {
  sl_comm_t* handle = pending->handle;
  SL_ASSIGN(const Choice* choice, handle->comm.selector()->Select(pending->op));
  handle->last_choice = choice;
  pending->op.settings = choice->settings;
  if (pending->op.seq != 0) handle->comm.op_log()->WriteChoice(pending->op.seq, choice->tag);
  TellBegin(*pending, choice->index);
  return choice;
}

Result<const Choice*> EnterAndChoose(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending) {
  Enter(handle, op, order, pending);
  return op.count != 0 ? Choose(pending) : nullptr;
}

namespace {

// For an algorithm that knows of no scalar in device memory, which the CPU must reach then.
Status TakeScalarFor(const Choice& choice, const Device& device, sl_op_t* op) {
  if (!device.is_addressable()) {
    return {SL_ERR_UNSUPPORTED,
            fmt::format("{}: reads no scalar in device memory: it, or a layer around it, speaks revision {} of {}, and "
                        "this takes {}; pass the scalar from host memory",
                        choice.name, choice.revision, SL_ALGORITHM_ID, kScalarRevision)};
  }
  TakeScalar(op);
  return {};
}

}  // namespace

Status FillLaunch(Pending* pending, const Choice& choice, sl_launch_t* launch) {
  sl_comm_t* handle = pending->handle;
  *launch = {};
  launch->struct_size = sizeof(*launch);
  launch->check = CheckWait;
  launch->check_ctx = pending;
  launch->check_interval_ns = kCheckIntervalNs;
  if (choice.run == SL_RUN_LAUNCH) [[likely]] {
    if (pending->op.scalar != nullptr && choice.revision < kScalarRevision) [[unlikely]]
      SL_TRY(TakeScalarFor(choice, handle->comm.device(), &pending->op));
    const sl_status_t status = CallOnDataPath("launch", choice.ops->launch, choice.algorithm, &pending->op,
                                              pending->args, sizeof(pending->args), launch);
    if (status != SL_OK) return {status, std::string(choice.name) + ": " + LastError()};
  } else {
    SL_TRY(handle->comm.runs()->Start(*choice.plan, pending->op, &pending->run));
    const auto run = reinterpret_cast<uintptr_t>(pending->run);
    std::memcpy(pending->args, &run, sizeof(run));
    launch->image = handle->engine_image;
    launch->args = pending->args;
    launch->args_bytes = sizeof(run);
  }
  if (handle->oversubscribed) launch->flags |= SL_LAUNCH_OVERSUBSCRIBED;
  return {};
}

Result<const Choice*> ChooseForGroup(sl_comm_t* handle, const sl_op_t* ops, uint32_t count) {
  SL_ASSIGN(const Choice* choice, handle->comm.selector()->Select(ops[0]));
  for (uint32_t i = 1; i < count; ++i) {
    SL_ASSIGN(const Choice* other, handle->comm.selector()->Select(ops[i]));
    if (other->algorithm == choice->algorithm) continue;
    return Status(SL_ERR_UNSUPPORTED, std::string("a group whose transfers are served by ") + choice->name +
                                          " and by " + other->name + "; pin one by a [[select]] rule");
  }
  return choice;
}

void BeginTransfers(sl_comm_t* handle, const sl_op_t* ops, uint32_t count, const Choice& choice) {
  handle->last_choice = &choice;
  for (uint32_t i = 0; i < count; ++i) EmitOp(handle->comm, ops[i], SL_EVENT_OP_BEGIN, ops[i].kind, choice.index);
}

Status FillGroupLaunch(const Choice& choice, const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
                       sl_launch_t* launch) {
  *launch = {};
  launch->struct_size = sizeof(*launch);
  const sl_status_t status =
      CallOnDataPath("launch_group", choice.ops->launch_group, choice.algorithm, ops, count, args, capacity, launch);
  if (status == SL_OK) return {};
  return {status,
          std::string("a group of ") + std::to_string(count) + " transfers, " + choice.name + ": " + LastError()};
}

// The outcome of a launch becomes that of the operation; a failure is the communicator's.
Status Leave(Pending* pending, sl_status_t code) {
  Communicator& comm = pending->handle->comm;
  EmitOp(comm, pending->op, SL_EVENT_OP_END, static_cast<uint64_t>(static_cast<int64_t>(code)), 0);
  Status outcome;
  if (code != SL_OK) [[unlikely]] {
    outcome = pending->outcome.code() == code ? pending->outcome : Status();
    if (outcome.ok() && pending->run != nullptr && pending->run->status().code() == code)
      outcome = pending->run->status();
    if (code == SL_ERR_PEER_LOST && pending->outcome.code() != code) outcome = NameTheLost(comm, outcome);
    if (outcome.ok() && code == SL_ERR_MISMATCH) {
      sl_wait_t wait{};
      CheckWait(pending, &wait, 0);
      outcome = pending->outcome;
    }
    if (outcome.ok()) outcome = Status(code, std::string(OpKindName(pending->op.kind)) + ": " + StatusName(code));
    if (code != SL_ERR_ABORTED) comm.Fail(outcome);
  }
  if (pending->run != nullptr) comm.runs()->Finish(pending->run, code == SL_OK ? SL_ERR_INTERNAL : code);
  return outcome;
}

void LeaveAndGive(void* context, sl_status_t status) {
  auto* pending = static_cast<Pending*>(context);
  [[maybe_unused]] const Status outcome = Leave(pending, status);  // kept as the communicator's failure
  pending->handle->pending.Give(pending);
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/op_life.h"

#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/ring.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kCheckIntervalNs = 10'000'000;

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

Status WhyUnusable(const Communicator& comm) {
  if (comm.cancelled()) return {SL_ERR_ABORTED, "the communicator was aborted"};
  const auto state = comm.state.load(std::memory_order_acquire);
  if (state == Communicator::State::kReady) return comm.Health();
  if (state == Communicator::State::kJoining) {
    return {SL_ERR_STATE, "the communicator is still being set up; wait until its state is ready"};
  }
  return {SL_ERR_STATE, "the communicator was finalized; no operation may follow"};
}

}  // namespace

Status CheckUsable(sl_comm_t* handle, const sl_op_t& op) {
  const Communicator& comm = handle->comm;
  const bool ready = comm.state.load(std::memory_order_acquire) == Communicator::State::kReady;
  if (ready && comm.healthy() && !comm.cancelled()) [[likely]]
    return {};
  const Status why = WhyUnusable(comm);
  return why.ok() ? why : Status(why.code(), std::string(OpKindName(op.kind)) + " not started: " + why.message());
}

// The work of two streams of one communicator is chained in issue order.
Status ChainStreams(sl_comm_t* handle, sl_stream_t* stream) {
  if (stream == handle->last_stream) [[likely]]
    return {};
  const Device& device = handle->comm.device();
  if (handle->pending.outstanding() != 0) {
    sl_status_t status = device.ops->event_record(device.handle, handle->order_event, handle->last_stream);
    if (status == SL_OK) status = device.ops->stream_wait_event(device.handle, stream, handle->order_event);
    if (status != SL_OK) return {status, LastError()};
  }
  handle->last_stream = stream;
  return {};
}

// Numbers the operation and tells the log of calls.
void Enter(sl_comm_t* handle, const sl_op_t& op, Pending* pending) {
  Communicator& comm = handle->comm;
  pending->handle = handle;
  pending->op = op;
  pending->run = nullptr;
  pending->unchanged_since_ns = 0;
  pending->reported = false;
  pending->last_wait = {};
  pending->op.signature = EncodeSignature(op);
  const bool collective = op.kind != SL_OP_SEND && op.kind != SL_OP_RECV;
  pending->op.seq = collective ? ++handle->collectives : 0;
  if (collective && comm.shape().domain_size == comm.size()) {
    comm.op_log()->Write(pending->op.seq, pending->op.signature);
  }
  ++handle->operations;
}

// Selects, and fills the launch. Everything it points to lives in `pending`.
Status FillLaunch(Pending* pending, sl_launch_t* launch) {
  sl_comm_t* handle = pending->handle;
  SL_ASSIGN(const Choice* choice, handle->comm.selector()->Select(pending->op));
  handle->last_choice = choice;
  EmitOp(handle->comm, pending->op, SL_EVENT_OP_BEGIN, pending->op.kind, choice->index);
  *launch = {};
  launch->struct_size = sizeof(*launch);
  launch->check = CheckWait;
  launch->check_ctx = pending;
  launch->check_interval_ns = kCheckIntervalNs;
  if (choice->run == SL_RUN_LAUNCH) [[likely]] {
    const sl_status_t status =
        choice->ops->launch(choice->algorithm, &pending->op, pending->args, sizeof(pending->args), launch);
    if (status != SL_OK) return {status, std::string(choice->name) + ": " + LastError()};
  } else {
    SL_TRY(handle->comm.runs()->Start(*choice->plan, pending->op, &pending->run));
    const auto run = reinterpret_cast<uintptr_t>(pending->run);
    std::memcpy(pending->args, &run, sizeof(run));
    launch->image = handle->engine_image;
    launch->args = pending->args;
    launch->args_bytes = sizeof(run);
  }
  if (handle->oversubscribed) launch->flags |= SL_LAUNCH_OVERSUBSCRIBED;
  return {};
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
    if (code == SL_ERR_PEER_LOST && pending->outcome.code() != code) outcome = NameTheLost(*pending, outcome);
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

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/op_life.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "kernel/events/last_error.h"
#include "kernel/events/ring.h"
#include "kernel/plan/scalar.h"
#include "kernel/plan/signature.h"
#include "kernel/runtime/copies.h"
#include "kernel/runtime/graph_hold.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kCheckIntervalNs = 10'000'000;
constexpr uint64_t kUnmarkedNs = 500'000'000;  // launches end some milliseconds after they are told to
constexpr uint64_t kUnmarkedLookNs = 1'000'000;
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

Status WhyUnusable(const Communicator& comm) {
  if (comm.cancelled()) return {SL_ERR_ABORTED, "the communicator was aborted"};
  if (comm.revoked()) return {SL_ERR_ABORTED, comm.revoked()};
  const auto state = comm.state.load(std::memory_order_acquire);
  if (state == Communicator::State::kReady) return comm.Health();
  if (state == Communicator::State::kJoining) {
    return {SL_ERR_STATE, "the communicator is still being set up; wait until its state is ready"};
  }
  if (state == Communicator::State::kSuspended) {
    return {SL_ERR_STATE, "the communicator is suspended; resume it on all ranks first"};
  }
  return {SL_ERR_STATE, "the communicator was finalized; no operation may follow"};
}

Result<IssueOrder*> OrderOfCapture(sl_comm_t* handle, uint64_t id, sl_stream_t* stream) {
  for (IssueOrder& order : handle->captured) {
    if (order.capture != 0 && order.capture_id == id) return &order;
  }
  SL_TRY(HoldByGraph(handle, handle->captures + 1, stream));
  handle->watch.Expect();  // who launches the graph later does not say so
  const uint64_t number = ++handle->captures;
  IssueOrder* order = &handle->captured[number % std::size(handle->captured)];
  *order = {.capture = number, .capture_id = id};
  return order;
}

// A handle may be that of another stream now: the driver gives it out again once its stream is destroyed, whose work
// goes on, and cudaStreamPerThread is a stream of every thread.
bool IsNewest(const IssueOrder& order, const Device& device, sl_stream_t* stream, uint64_t stream_id) {
  if (!order.begun || stream != order.stream) return false;
  return order.capture != 0 || device.is_watched() || (stream_id != 0 && stream_id == order.stream_id);
}

// `stream` goes on after the operations issued in this order so far.
Status ChainStreams(sl_comm_t* handle, IssueOrder* order, sl_stream_t* stream, uint64_t stream_id) {
  const Device& device = handle->comm.device();
  if (IsNewest(*order, device, stream, stream_id)) [[likely]]
    return {};
  const bool is_marked = order->capture == 0 && !device.is_watched();
  const bool may_run = !device.is_watched() || handle->pending.outstanding() != 0;
  if (order->begun && may_run) {
    sl_event_t* event = order->capture == 0 ? handle->order_event : handle->join_event;
    sl_status_t status = is_marked ? SL_OK : device.ops->event_record(device.handle, event, order->stream);
    if (status == SL_OK) status = device.ops->stream_wait_event(device.handle, stream, event);
    if (status != SL_OK) return {status, LastError()};
  }
  order->stream = stream;
  order->stream_id = stream_id;
  order->begun = true;
  return {};
}

// The stream cannot be asked later, when it may be gone.
Status EndUnmarked(sl_comm_t* handle, sl_stream_t* stream, const Status& why) {
  const Device& device = handle->comm.device();
  handle->comm.FailLaunches(why);
  const uint64_t deadline_ns = NowNs() + kUnmarkedNs;
  sl_status_t ended = SL_ERR_TIMEOUT;
  while (ended == SL_ERR_TIMEOUT && NowNs() < deadline_ns) {
    handle->comm.ReleaseSignals();  // the stream may come to one wait after the other
    ended = device.ops->stream_wait_idle(device.handle, stream, NowNs() + kUnmarkedLookNs);
  }
  if (ended != SL_OK) handle->unmarked.store(true);
  return why;
}

// All but the operation and what lies in windows.
void Prepare(sl_comm_t* handle, Pending* pending) {
  pending->handle = handle;
  pending->run = nullptr;
  pending->send_window = pending->recv_window = nullptr;
  pending->wait.Begin();
}

}  // namespace

PooledPending::~PooledPending() {
  if (pending_ == nullptr) return;
  if (pending_->run != nullptr) {
    LeaveAndGive(pending_, SL_ERR_ABORTED);
  } else {
    handle_->pending.Give(pending_);
  }
}

Status CheckUsable(sl_comm_t* handle, const sl_op_t& op) { return CheckUsable(handle, OpKindName(op.kind)); }

Status TwoCallsAtOnce() {
  return {SL_ERR_STATE, "two threads call on one communicator at once; give each its own, or let them take turns"};
}

Status CheckUsable(sl_comm_t* handle, const char* what) {
  const Communicator& comm = handle->comm;
  const bool ready = comm.state.load(std::memory_order_acquire) == Communicator::State::kReady;
  if (ready && comm.healthy() && !comm.cancelled()) [[likely]]
    return {};
  const Status why = WhyUnusable(comm);
  return why.ok() ? why : Status(why.code(), std::string(what) + " not started: " + why.message());
}

// The likely way to a stream of another device: a program of GPUs whose communicator came before its first use of one.
Status CheckStream(const sl_comm_t* handle, sl_stream_t* stream) {
  const Device& device = handle->comm.device();
  if (stream == nullptr || stream == handle->eager.stream || !device.is_host()) [[likely]]
    return {};
  uint32_t state = 0;
  uint64_t id = 0;
  if (device.ops->capture_state(device.handle, stream, &state, &id) != SL_ERR_INVALID) return {};
  char text[320];
  std::snprintf(text, sizeof(text),
                "stream %p is no stream of the host, and this communicator lies in host memory because the process had "
                "not used CUDA when it was made, or because roles.device says so; call cudaSetDevice before making it, "
                "or set roles.device = \"cuda\"",
                static_cast<void*>(stream));
  return {SL_ERR_INVALID, text};
}

Result<bool> IsCaptured(const Device& device, sl_stream_t* stream, uint64_t* out_id) {
  if ((device.info.capabilities & SL_DEVICE_CAN_CAPTURE) == 0) return false;
  uint32_t state = 0;
  const sl_status_t status = device.ops->capture_state(device.handle, stream, &state, out_id);
  if (status != SL_OK) [[unlikely]]
    return Status(status, LastError());
  return state != 0;
}

Result<IssueOrder*> JoinOrder(sl_comm_t* handle, sl_stream_t* stream) {
  uint64_t id = 0;
  SL_ASSIGN(const bool is_captured, IsCaptured(handle->comm.device(), stream, &id));
  IssueOrder* order = &handle->eager;
  if (is_captured) {
    SL_ASSIGN(order, OrderOfCapture(handle, id, stream));
  }
  SL_TRY(ChainStreams(handle, order, stream, is_captured ? 0 : id));
  return order;
}

// A program may destroy a stream whose work has ended, and then it must not be named any more.
Status MarkEnd(sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream) {
  const Device& device = handle->comm.device();
  if (device.is_watched() || order.capture != 0) return {};
  const sl_status_t status = device.ops->event_record(device.handle, handle->order_event, stream);
  handle->watch.Expect();
  return status == SL_OK ? Status() : EndUnmarked(handle, stream, {status, LastError()});
}

Status MarkEndOf(const Status& issued, sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream) {
  Status marked = MarkEnd(handle, order, stream);
  return issued.ok() ? marked : issued;
}

void EnterTransfer(const sl_op_t& op, const IssueOrder& order, sl_op_t* entered) {
  *entered = op;
  entered->signature = EncodeSignature(op);
  entered->capture = order.capture;
  entered->symmetric = 0;
  entered->seq = 0;
}

void Enter(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending) {
  Communicator& comm = handle->comm;
  Prepare(handle, pending);
  EnterTransfer(op, order, &pending->op);
  const bool collective = op.kind != SL_OP_SEND && op.kind != SL_OP_RECV;
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
  if (pending->op.seq != 0) handle->comm.op_log()->WriteChoice(pending->op.seq, choice->tag);
  TellBegin(*pending, choice->index);
  return choice;
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
    const sl_status_t status =
        choice.ops->launch(choice.algorithm, &pending->op, pending->args, sizeof(pending->args), launch);
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
  const sl_status_t status = choice.ops->launch_group(choice.algorithm, ops, count, args, capacity, launch);
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

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue.h"

#include "kernel/events/last_error.h"
#include "kernel/runtime/admission.h"
#include "kernel/runtime/check_op.h"
#include "kernel/runtime/copies.h"
#include "kernel/runtime/op_life.h"
#include "kernel/runtime/relay_job.h"
#include "kernel/runtime/wait_check.h"
#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// What was entered, served by no sequence.
Status IssueChosen(Pending* pending, const Choice& choice, const IssueOrder& order, sl_stream_t* stream) {
  sl_comm_t* handle = pending->handle;
  if (choice.run == SL_RUN_COPIES) {
    const Status issued = IssueCopies(*pending, choice, order, stream);
    return MarkEndOf(issued, handle, order, stream);
  }
  sl_launch_t launch;
  SL_TRY(FillLaunch(pending, choice, &launch));
  const Device& device = handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  if (device.is_watched()) return Leave(pending, status);
  return status == SL_OK ? MarkEnd(handle, order, stream) : Status(status, LastError());
}

// Peers wait for the rest of a sequence that was begun: after an error the communicator has failed.
Status IssueParts(const Pending& whole, const Choice& sequence, const IssueOrder& order, sl_stream_t* stream) {
  const LocalPending part;
  for (const PartChoice& one : sequence.parts) {
    EnterPart(whole, one, part.get());
    Status issued = IssueChosen(part.get(), *one.choice, order, stream);
    if (issued.ok()) continue;
    if (&one != sequence.parts.data()) whole.handle->comm.FailLaunches(issued);
    return issued;
  }
  return {};
}

// Nothing of the operation outlives the call: it has ended, or the device has taken all it needs.
Status IssueAtOnce(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  const LocalPending pending;
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  SL_ASSIGN(const Choice* choice, Choose(pending.get()));
  if (choice->run == SL_RUN_SEQUENCE) [[unlikely]]
    return IssueParts(*pending.get(), *choice, order, stream);
  return IssueChosen(pending.get(), *choice, order, stream);
}

// A plan on a stream without the device's help but for two words: a progress thread runs it in between. The way of
// devices that cannot run host kernels; on the host only when the profile says so.
Status IssueToProgressThread(PooledPending* taken, sl_stream_t* stream) {
  Pending* pending = taken->get();
  sl_comm_t* handle = pending->handle;
  const Device& device = handle->comm.device();
  if (pending->words == nullptr) pending->words = TakeStreamWords();
  StreamWords* words = pending->words;
  const uint64_t turn = ++words->turn;
  ProgressJob job;
  job.work = pending->run;
  job.start_word = &words->start;
  job.start_value = turn;
  job.end_word = &words->end;
  job.end_value = turn;
  job.check = CheckWait;
  job.check_ctx = pending;
  job.check_interval_ns = 10'000'000;
  job.done = LeaveAndGive;
  job.done_ctx = pending;
  Status submitted = handle->comm.process()->progress()->Submit(job);
  static_cast<void>(taken->release());
  if (!submitted.ok()) {
    LeaveAndGive(pending, submitted.code());
    return submitted;
  }
  // From here on the job owns `pending`, and ends also when the stream fails.
  sl_status_t status = device.ops->stream_write_value(device.handle, stream, &words->start, turn);
  if (status == SL_OK) status = device.ops->stream_wait_value(device.handle, stream, &words->end, turn);
  if (status != SL_OK) handle->comm.Fail({status, LastError()});
  return status == SL_OK ? Status() : handle->comm.Health();
}

Status IssueOnStream(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  PooledPending pending = TakePending(handle);
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  SL_ASSIGN(const Choice* choice, Choose(pending.get()));
  sl_launch_t launch;
  SL_TRY(FillLaunch(pending.get(), *choice, &launch));
  if (pending.get()->run != nullptr &&
      handle->comm.process()->profile().settings().engine.progress == ProgressMode::kThread) {
    return IssueToProgressThread(&pending, stream);
  }
  launch.done = LeaveAndGive;
  launch.done_ctx = pending.release();
  const Device& device = handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  if (status == SL_OK) return {};
  return handle->comm.healthy() ? Status(status, LastError()) : handle->comm.Health();
}

// Through host memory, in order with the stream, or in each replay of the graph that it is captured into.
Status IssueRelayed(sl_comm_t* handle, const IssueOrder& order, const sl_op_t& op, sl_stream_t* stream) {
  PooledPending pending = TakePending(handle);
  Enter(handle, op, order, pending.get());
  if (op.count == 0) return {};
  Pending* const own = pending.get();
  if (order.capture != 0) return handle->relay->Capture({&own, 1}, order.capture, stream);
  SL_ASSIGN(RelayJob * job, handle->relay->Begin({&own, 1}, stream));
  static_cast<void>(pending.release());
  Status enqueued;
  do {
    enqueued = handle->relay->Enqueue(job);
  } while (enqueued.code() == SL_ERR_AGAIN);
  return MarkEndOf(enqueued, handle, order, stream);
}

// A call that is marked.
[[gnu::always_inline]] inline Status IssueMarked(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  SL_TRY(CheckUsable(handle, op));
  SL_TRY(CheckOp(handle->comm, op));
  SL_TRY(CheckStream(handle, stream));
  if (IsTransfer(op.kind) && op.peer == static_cast<int32_t>(handle->comm.rank())) {
    return {SL_ERR_INVALID, op.kind == SL_OP_SEND ? "a send to the own rank needs its receive in the same group"
                                                  : "a receive from the own rank needs its send in the same group"};
  }
  handle->comm.selector()->Collect();
  SL_ASSIGN(IssueOrder * order, JoinOrder(handle, stream));
  if (handle->relay != nullptr) [[unlikely]]
    return IssueRelayed(handle, *order, op, stream);
  const bool at_once = stream == nullptr || !handle->comm.device().is_watched();
  return at_once ? IssueAtOnce(handle, *order, op, stream) : IssueOnStream(handle, *order, op, stream);
}

}  // namespace

[[gnu::noinline]] Status MarkAndIssue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  const InCall in_call(handle);
  if (!in_call.is_alone()) [[unlikely]]
    return TwoCallsAtOnce();
  return IssueMarked(handle, op, stream);
}

Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  if (handle->is_marked_by_caller) [[likely]] {
    handle->CountCall();
    return IssueMarked(handle, op, stream);
  }
  return MarkAndIssue(handle, op, stream);
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The life of one operation: enter, fill the launch, leave. Shared by single operations and groups.
#pragma once

#include <new>
#include <utility>

#include "kernel/runtime/issue.h"

namespace sl::kernel {

// Marks the communicator as in use by a call; comm_abort waits for it. The exchange is the one locked instruction of
// the hot path: it orders the mark before the reading of `cancelled` (Dekker, partner in comm_abort). Where the caller
// of enqueue marks its calls, the exchange is the caller's.
class InCall {
 public:
  explicit InCall(sl_comm_t* handle)
      : handle_(handle), is_alone_(handle_->in_call().exchange(1, std::memory_order_seq_cst) == 0) {
    if (is_alone_) [[likely]]
      handle_->CountCall();
  }
  ~InCall() {
    if (is_alone_) handle_->in_call().store(0, std::memory_order_release);
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

  // False: another thread is inside, whose mark stays; the caller touches nothing and returns TwoCallsAtOnce().
  bool is_alone() const { return is_alone_; }

 private:
  sl_comm_t* handle_;
  const bool is_alone_;
};

// An operation of the communicator's pool. It goes back there, its run ended, unless it is handed on.
class PooledPending {
 public:
  explicit PooledPending(sl_comm_t* handle) : PooledPending(handle, handle->pending.Take()) { pending_->run = nullptr; }
  // One that was taken, or NULL: none yet.
  PooledPending(sl_comm_t* handle, Pending* pending) : handle_(handle), pending_(pending) {}
  ~PooledPending();
  PooledPending(const PooledPending&) = delete;
  PooledPending& operator=(const PooledPending&) = delete;

  Pending* get() const { return pending_; }
  void Adopt(Pending* taken) { pending_ = taken; }
  // Somebody else gives it back from now on.
  Pending* HandOn() { return std::exchange(pending_, nullptr); }

 private:
  sl_comm_t* const handle_;
  Pending* pending_;
};

// What `body` returns, or that there was no memory for it: for those who must go on all the same.
template <typename Body>
Status OrNoMemory(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return Status(SL_ERR_MEMORY);
  }
}

// Operations of a communicator have an order, which two threads at once do not agree on.
[[gnu::cold]] Status TwoCallsAtOnce();

// SL_OK when operations may be issued; else why `op`, or `what`, was not started.
Status CheckUsable(sl_comm_t* handle, const char* what);
Status CheckUsable(sl_comm_t* handle, const sl_op_t& op);
// SL_ERR_INVALID with the remedy when the device is the host and `stream` is not one of its streams. Before anything of
// the operation has begun: its number must not be lost.
Status CheckStream(const sl_comm_t* handle, sl_stream_t* stream);
// Whether the stream is in a capture, and in which; else the stream's id, 0: unknown.
Result<bool> IsCaptured(const Device& device, sl_stream_t* stream, uint64_t* out_id);
// The eager operations, or those of the capture that `stream` is in: it goes on after what was issued of them so far.
Result<IssueOrder*> JoinOrder(sl_comm_t* handle, sl_stream_t* stream);
// The end of what this order has issued to `stream` can be waited for from now on, whatever becomes of the stream.
// Nothing to do where the end of a launch is known. When it cannot be marked, the communicator fails and its launches
// are ended; of those that do not end soon it keeps the memory.
Status MarkEnd(sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream);
// `issued`, and where that failed half-way the same for what the device has got of it.
Status MarkEndOf(const Status& issued, sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream);
// A send or receive as algorithms take it. It is not counted yet.
void EnterTransfer(const sl_op_t& op, const IssueOrder& order, sl_op_t* entered);
// Numbers and counts the operation, and tells the log of calls.
void Enter(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending);
// Tells observers that it begins, served by the choice of that index.
void TellBegin(const Pending& pending, uint32_t choice);
// Selects, and tells the log of calls and observers.
Result<const Choice*> Choose(Pending* pending);
// A part of `whole`, which is a sequence and was chosen: an operation in `pending` that has the number and signature of
// the whole, so that people and peers see one call.
void EnterPart(const Pending& whole, const PartChoice& part, Pending* pending);
// Fills the launch of a choice that is no list of copies and no sequence. Everything it points to lives in `pending`.
Status FillLaunch(Pending* pending, const Choice& choice, sl_launch_t* launch);
// What serves several sends and receives of one communicator in one launch.
Result<const Choice*> ChooseForGroup(sl_comm_t* handle, const sl_op_t* ops, uint32_t count);
// Tells observers that they begin.
void BeginTransfers(sl_comm_t* handle, const sl_op_t* ops, uint32_t count, const Choice& choice);
// Fills one launch for them.
// returns: SL_ERR_LIMIT it cannot take so many | errors of the algorithm
Status FillGroupLaunch(const Choice& choice, const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
                       sl_launch_t* launch);
// The outcome of a launch becomes that of the operation; a failure is the communicator's.
Status Leave(Pending* pending, sl_status_t code);
// The same as sl_launch_t::done of a pooled Pending.
void LeaveAndGive(void* pending, sl_status_t code);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The life of one operation: enter, fill the launch, leave. Shared by single operations and groups.
#pragma once

#include "kernel/runtime/issue.h"

namespace sl::kernel {

// Marks the communicator as in use by a call; comm_abort waits for it. The exchange is the one locked instruction of
// the hot path: it orders the mark before the reading of `cancelled` (Dekker, partner in comm_abort).
class InCall {
 public:
  explicit InCall(sl_comm_t* handle) : handle_(handle) { handle_->in_call.exchange(1, std::memory_order_seq_cst); }
  ~InCall() { handle_->in_call.store(0, std::memory_order_release); }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  sl_comm_t* handle_;
};

// SL_OK when operations may be issued; else why `op`, or `what`, was not started.
Status CheckUsable(sl_comm_t* handle, const char* what);
Status CheckUsable(sl_comm_t* handle, const sl_op_t& op);
// Whether the stream is in a capture, and in which.
Result<bool> IsCaptured(const Device& device, sl_stream_t* stream, uint64_t* out_id);
// The eager operations, or those of the capture that `stream` is in.
Result<IssueOrder*> OrderOf(sl_comm_t* handle, sl_stream_t* stream);
// `stream` goes on after the operations issued in this order so far.
Status ChainStreams(sl_comm_t* handle, IssueOrder* order, sl_stream_t* stream);
// The end of what this order has issued to `stream` can be waited for from now on, whatever becomes of the stream.
// Nothing to do where the end of a launch is known.
Status MarkEnd(sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream);
// Numbers the operation and tells the log of calls.
void Enter(sl_comm_t* handle, const sl_op_t& op, const IssueOrder& order, Pending* pending);
// Tells observers that it begins, served by the choice of that index.
void TellBegin(const Pending& pending, uint32_t choice);
// Selects, and tells the log of calls and observers.
Result<const Choice*> Choose(Pending* pending);
// Fills the launch of a choice that is no list of copies. Everything it points to lives in `pending`.
Status FillLaunch(Pending* pending, const Choice& choice, sl_launch_t* launch);
// The same for several operations of one communicator at once, of which `first` is one.
Status FillGroupLaunch(Pending* first, const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
                       sl_launch_t* launch);
// The outcome of a launch becomes that of the operation; a failure is the communicator's.
Status Leave(Pending* pending, sl_status_t code);
// The same as sl_launch_t::done of a pooled Pending.
void LeaveAndGive(void* pending, sl_status_t code);

}  // namespace sl::kernel

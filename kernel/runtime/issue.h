// SPDX-License-Identifier: Apache-2.0
//
// Issuing operations: from a checked call to a launch. The warm path of a single operation on the host's default stream
// allocates nothing, takes no lock and makes no system call.
#pragma once

#include "kernel/runtime/handle.h"
#include "kernel/runtime/wait_length.h"

namespace sl::kernel {

// What a stream and a progress thread tell each other by. The words only grow, and their memory is used again but never
// freed: a stream may look at its word after the communicator is gone, and must not take a newer value for an older
// one.
struct StreamWords {
  uint64_t start = 0;  // stored by the stream
  uint64_t end = 0;    // stored by the progress thread
  uint64_t turn = 0;   // of the newest use
};
StreamWords* TakeStreamWords();            // [any]
void GiveStreamWords(StreamWords* words);  // [any]; NULL is fine

// One operation between issue and outcome. What its waits may report lives here.
struct Pending {
  sl_comm_t* handle = nullptr;
  sl_op_t op{};
  Run* run = nullptr;  // NULL: a launch, or copies
  // That its buffers lie in, by op.symmetric; NULL: none. While it is issued.
  const sl_comm_window_t* send_window = nullptr;
  const sl_comm_window_t* recv_window = nullptr;
  Status outcome;
  WaitLength wait;
  struct StreamWords* words = nullptr;  // between a stream and a progress thread; taken at first use
  Pending* next_free = nullptr;         // the pool's
  alignas(64) uint8_t args[4096];
};

// As sl_runtime_ops_t::enqueue and enqueue_group; errors with text.
Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream);
Status IssueGroup(const sl_group_entry_t* entries, uint32_t count);
// As Issue, of a call that its caller has not marked.
Status MarkAndIssue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream);

// What is wrong with the arguments of `op` on this communicator, or SL_OK.
Status CheckOp(const Communicator& comm, const sl_op_t& op);
// The same without the buffers, for those who only ask.
Status CheckOpArguments(const Communicator& comm, const sl_op_t& op);

// SL_ERR_MISMATCH with both sides' arguments when a rank of this host called something else, by the log of the last
// calls. Not every mismatch makes somebody wait: a small broadcast whose roots differ only leaves wrong results. Asked
// again, it looks at what was called since.
Status FindMismatch(sl_comm_t* handle);

// `found`, with the rank that was lost or has failed. A link may notice an end before the control plane does, and it
// only knows its neighbour, who may have left because of another one; so the control plane gets a moment to tell. Slow
// path.
Status NameTheLost(const Pending& pending, const Status& found);

// Called while a launch waits (sl_launch_t::check): decides whether waiting still makes sense.
sl_status_t CheckWait(void* pending, const sl_wait_t* wait, uint64_t waited_ns);

// Loads the engine's kernel and the event that orders streams. Once, when the communicator is ready.
Status PrepareToIssue(sl_comm_t* handle);
void StopIssuing(sl_comm_t* handle);
// Whether eager launches may still run that nobody watches.   [any]
bool LaunchesMayRun(const sl_comm_t& handle);
// The process forgets that launches of it may run: who frees memory does not wait for them.   [control]
void LeaveRoll(sl_comm_t* handle);
// Until the eager launches that nobody watches have ended, at most until the deadline; true when they have.
bool AwaitLaunches(sl_comm_t* handle, uint64_t deadline_ns);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// What the calls that meet other ranks share: they run on the caller or, non-blocking, on the communicator's own worker
// thread, which exists only while it has work.
#pragma once

#include <functional>

#include "kernel/runtime/handle.h"

namespace sl::kernel {

// The longest that operations take to end once they have been told to.
constexpr uint64_t kStopNs = 1'000'000'000;

// SL_ERR_STATE while another call is in progress.
Status CheckIdle(sl_comm_t* handle);
// Runs `call` now, or on the communicator's worker, which blocks all signals, behind what that has to do already; then
// comm_state has the outcome, of several the first failure.
// returns: the outcome | SL_IN_PROGRESS | what `refused` was told, when the call will not run: SL_ERR_LIMIT no thread
Status RunCall(sl_comm_t* handle, bool nonblocking, std::function<Status()> call,
               const std::function<void(const Status&)>& refused = {});
void JoinWorker(sl_comm_t* handle);
// The same, until the deadline at most.   returns: whether the worker has ended
bool JoinWorkerWithin(sl_comm_t* handle, uint64_t deadline_ns);
// The worker has nothing to do any more, and nobody visits it. Never waits.
bool IsLeftAlone(sl_comm_t* handle);

// Somebody is inside who may be so while the program ends the communicator. Its waits end with the cancellation.
class Visit {
 public:
  explicit Visit(sl_comm_t* handle) : handle_(handle) { handle_->visits.fetch_add(1); }
  ~Visit() { handle_->visits.fetch_sub(1); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  sl_comm_t* handle_;
};
// Returns when all have left, which is true, or at the deadline.
bool AwaitVisits(const sl_comm_t* handle, uint64_t deadline_ns);

// After joining: ready for operations, or failed.
Status BecomeReady(sl_comm_t* handle, Status joined);
// True once nobody is inside any more, and no launch of it runs.
bool DrainWithin(sl_comm_t* handle, uint64_t deadline_ns);

}  // namespace sl::kernel

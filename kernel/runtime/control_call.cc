// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/control_call.h"

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <ctime>
#include <string>
#include <system_error>

namespace sl::kernel {
namespace {

Status Busy() { return {SL_ERR_STATE, "another call on this communicator is still in progress"}; }

// Holds the lock of its work.
Status BeginOnWorker(sl_comm_t* handle, std::function<Status()> call) {
  if (handle->working) return Busy();
  if (handle->worker.joinable()) handle->worker.join();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status begun;
  try {
    handle->worker = std::thread([handle, call = std::move(call)] {
      Status outcome = call();
      std::lock_guard done(handle->work_mutex);
      handle->work_outcome = std::move(outcome);
      handle->working = false;
      handle->work_done.notify_all();
    });
  } catch (const std::system_error& why) {
    begun = Status(SL_ERR_LIMIT, std::string("no thread for a call that does not block: ") + why.what() +
                                     "; raise the limit on threads (ulimit -u)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  SL_TRY(begun);
  handle->working = true;  // the worker ends only behind this lock
  handle->work_outcome = Status(SL_IN_PROGRESS);
  handle->work_told = false;
  return {};
}

}  // namespace

Status WrongArgument() {
  return {SL_ERR_INVALID, "its call was refused there for an argument, which its own error names"};
}

Status CheckIdle(sl_comm_t* handle) {
  std::lock_guard lock(handle->work_mutex);
  return handle->working ? Busy() : Status();
}

Status RunCall(sl_comm_t* handle, bool nonblocking, std::function<Status()> call,
               const std::function<void(const Status&)>& refused) {
  if (!nonblocking) {
    Status outcome = call();
    std::lock_guard lock(handle->work_mutex);
    handle->work_outcome = outcome;
    handle->work_told = true;
    return outcome;
  }
  std::lock_guard lock(handle->work_mutex);
  Status begun = BeginOnWorker(handle, std::move(call));
  if (begun.ok()) return Status(SL_IN_PROGRESS);
  if (refused) refused(begun);
  return begun;
}

Status BecomeReady(sl_comm_t* handle, Status joined) {
  if (joined.ok()) joined = PrepareToIssue(handle);
  if (joined.ok()) {
    handle->comm.state.store(Communicator::State::kReady, std::memory_order_release);
  } else {
    handle->comm.Fail(joined);
  }
  return joined;
}

void JoinWorker(sl_comm_t* handle) {
  std::thread worker;
  {
    std::lock_guard lock(handle->work_mutex);
    worker = std::move(handle->worker);
  }
  if (worker.joinable()) worker.join();
}

void AwaitVisits(const sl_comm_t* handle) {
  const timespec nap{0, 50'000};
  while (handle->visits.load() != 0) nanosleep(&nap, nullptr);
}

bool DrainWithin(sl_comm_t* handle, uint64_t deadline_ns) {
  const auto is_idle = [handle] {
    return handle->in_call.load(std::memory_order_seq_cst) == 0 && handle->pending.outstanding() == 0 &&
           (handle->relay == nullptr || handle->relay->IsResting());
  };
  while (!is_idle()) {
    if (NowNs() >= deadline_ns) return false;
    sched_yield();
  }
  return AwaitLaunches(handle, deadline_ns);
}

}  // namespace sl::kernel

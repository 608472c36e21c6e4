// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/launches.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <new>
#include <string>

namespace sl::kernel {
namespace {

// A worker has nobody who would catch what a call throws.
Status Guarded(const std::function<Status()>& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(SL_ERR_MEMORY);
  } catch (const std::exception& error) {
    return {SL_ERR_INTERNAL, error.what()};
  } catch (...) {
    return {SL_ERR_EXCEPTION, "an exception that is not a std::exception"};
  }
}

void Work(sl_comm_t* handle, const std::function<Status()>& first) {
  Status outcome = Guarded(first);
  std::unique_lock lock(handle->work_mutex);
  while (!handle->work_queued.empty()) {
    const std::function<Status()> next = std::move(handle->work_queued.front());
    handle->work_queued.pop_front();
    lock.unlock();
    Status later = Guarded(next);
    if (outcome.ok()) outcome = std::move(later);
    lock.lock();
  }
  handle->work_outcome = std::move(outcome);
  handle->working = false;
  handle->work_done.notify_all();
}

// Holds the lock of its work.
Status BeginOnWorker(sl_comm_t* handle, std::function<Status()> call) {
  if (handle->working) {
    handle->work_queued.push_back(std::move(call));
    return {};
  }
  if (handle->worker.joinable()) handle->worker.Join();
  SL_TRY(handle->worker.Start("sl-call", "for a call that meets other ranks",
                              [handle, call = std::move(call)] { Work(handle, call); }));
  handle->working = true;  // the worker ends only behind this lock
  handle->work_outcome = Status(SL_IN_PROGRESS);
  handle->work_told = false;
  return {};
}

}  // namespace

Status CheckIdle(sl_comm_t* handle) {
  std::lock_guard lock(handle->work_mutex);
  if (!handle->working) return {};
  return {SL_ERR_STATE, "another call on this communicator is still in progress"};
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
  Thread worker;
  {
    std::lock_guard lock(handle->work_mutex);
    worker = std::move(handle->worker);
  }
  if (worker.joinable()) worker.Join();
}

bool JoinWorkerWithin(sl_comm_t* handle, uint64_t deadline_ns) {
  constexpr uint64_t kSliceNs = 1'000'000'000;  // the longest that the clock of a wait is asked for
  {
    std::unique_lock lock(handle->work_mutex);
    while (handle->working) {
      const uint64_t now_ns = NowNs();
      if (now_ns >= deadline_ns) return false;
      handle->work_done.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now_ns, kSliceNs)));
    }
  }
  JoinWorker(handle);  // it only has to return
  return true;
}

bool IsLeftAlone(sl_comm_t* handle) {
  const std::lock_guard lock(handle->work_mutex);
  return !handle->working && handle->visits.load() == 0;
}

bool AwaitVisits(const sl_comm_t* handle, uint64_t deadline_ns) {
  const timespec nap{0, 50'000};
  while (handle->visits.load() != 0) {
    if (NowNs() >= deadline_ns) return false;
    nanosleep(&nap, nullptr);
  }
  return true;
}

bool DrainWithin(sl_comm_t* handle, uint64_t deadline_ns) {
  const auto is_idle = [handle] {
    return handle->in_call().load(std::memory_order_seq_cst) == 0 && handle->pending.outstanding() == 0 &&
           (handle->relay == nullptr || handle->relay->IsResting());
  };
  while (!is_idle()) {
    if (NowNs() >= deadline_ns) return false;
    sched_yield();
  }
  return AwaitLaunches(handle, deadline_ns);
}

}  // namespace sl::kernel

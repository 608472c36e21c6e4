// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/graph_hold.h"

#include <memory>
#include <utility>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/runtime/control_call.h"
#include "kernel/runtime/late_free.h"
#include "kernel/runtime/launches.h"

namespace sl::kernel {
namespace {

void Delete(sl_comm_t* handle) {
  StopIssuing(handle);
  delete handle;
}

bool Always() { return true; }

// What a graph holds.
struct GraphHold {
  sl_comm_t* handle;
  uint64_t capture;
};

// No thread can be had now: until there is one.
void RetryLater(ControlThread* control) noexcept {
  constexpr uint64_t kRetryNs = 1'000'000'000;
  try {
    control->At(NowNs() + kRetryNs, [control] {
      if (!ProcessLateFree()->Retry()) RetryLater(control);
    });
  } catch (...) {
    Log(SL_LOG_DEBUG, "memory of a communicator that has ended is freed when the next one has");
  }
}

// For who must neither wait nor free.
void PutOff(sl_comm_t* handle, LateFree::Job job) {
  ControlThread* control = handle->comm.process()->control();
  if (!ProcessLateFree()->Put(std::move(job), &handle->last_place)) RetryLater(control);
}

// Called by the device when a graph is gone, where it must not be called back.
void LetGo(void* context) {
  const std::unique_ptr<GraphHold> hold(static_cast<GraphHold*>(context));
  sl_comm_t* handle = hold->handle;
  if (handle->relay != nullptr) handle->relay->EndGraph(hold->capture);
  if (handle->holds.fetch_sub(1) != 1) return;
  PutOff(handle, {Always, [handle] { Delete(handle); }});
}

// The program needs it no more. True: nobody does.
bool LetGoOfProgram(sl_comm_t* handle) {
  if (handle->relay != nullptr && !handle->relay->EndGraphs(NowNs() + kStopNs)) {
    Logf(SL_LOG_WARN, "rank {}: replays of a communicator that has ended do not end; its memory is kept",
         handle->comm.rank());
    return false;
  }
  const uint32_t graphs = handle->holds.load() - 1;
  if (graphs != 0) {
    Logf(SL_LOG_INFO, "rank {}: {} captured graphs keep the memory of a communicator that has ended",
         handle->comm.rank(), graphs);
    handle->comm.KeepMemoryOnly();
  }
  handle->is_dropped.store(true);
  return handle->holds.fetch_sub(1) == 1;
}

}  // namespace

Status HoldByGraph(sl_comm_t* handle, uint64_t capture, sl_stream_t* stream) {
  const Device& device = handle->comm.device();
  handle->holds.fetch_add(1);
  std::unique_ptr<GraphHold> hold(new GraphHold{handle, capture});
  const sl_status_t status = device.ops->capture_retain(device.handle, stream, LetGo, hold.get());
  if (status == SL_OK) {
    static_cast<void>(hold.release());  // the graph's now
    return {};
  }
  if (status == SL_ERR_UNSUPPORTED) {
    Logf(SL_LOG_WARN, "rank {}: the device does not tell when graphs are gone; this communicator's memory is kept",
         handle->comm.rank());
    return {};
  }
  handle->holds.fetch_sub(1);
  return StatusOf(status);
}

void Drop(sl_comm_t* handle, uint64_t deadline_ns) {
  handle->GiveMarkBack();
  if (!LetGoOfProgram(handle)) return;
  if (handle->comm.device().is_watched()) return Delete(handle);
  if (ProcessLateFree()->Add({Always, [handle] { Delete(handle); }}, deadline_ns, &handle->last_place)) return;
  Logf(SL_LOG_DEBUG, "memory of a communicator that has ended is freed when no launch of another one runs");
}

void DropWhenItStops(sl_comm_t* handle) {
  if (handle->comm.device().is_watched()) return;
  handle->GiveMarkBack();
  // Nobody will ever know whether its launches have ended; freeing would wait for them, and all launches for that.
  if (handle->unmarked.load()) {
    handle->comm.LeaveKeeper();  // it would keep all others from unmapping
    return LeaveRoll(handle);
  }
  const auto stopped = [handle] {
    handle->GiveMarkBack();  // the caller's word stays its last call's until that has left
    return IsLeftAlone(handle) && DrainWithin(handle, 0);
  };
  const auto drop = [handle] {
    JoinWorker(handle);
    if (LetGoOfProgram(handle)) Delete(handle);
  };
  PutOff(handle, {stopped, drop});
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/graph_hold.h"

#include <pthread.h>

#include <csignal>
#include <memory>
#include <thread>

#include "kernel/events/last_error.h"
#include "kernel/events/log.h"
#include "kernel/runtime/control_call.h"

namespace sl::kernel {
namespace {

void Delete(sl_comm_t* handle) {
  StopIssuing(handle);
  delete handle;
}

// On a thread of its own: freeing device memory may wait for the device, which the control thread must not do.
void DeleteAside(sl_comm_t* handle) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([handle] { Delete(handle); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// What a graph holds.
struct GraphHold {
  sl_comm_t* handle;
  uint64_t capture;
};

// Called by the device when a graph is gone, where it must not be called back.
void LetGo(void* context) {
  const std::unique_ptr<GraphHold> hold(static_cast<GraphHold*>(context));
  sl_comm_t* handle = hold->handle;
  if (handle->relay != nullptr) handle->relay->EndGraph(hold->capture);
  if (handle->holds.fetch_sub(1) != 1) return;
  handle->comm.process()->control()->At(0, [handle] { DeleteAside(handle); });
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
  return {status, LastError()};
}

void Drop(sl_comm_t* handle) {
  if (handle->relay != nullptr && !handle->relay->EndGraphs(NowNs() + kStopNs)) {
    Logf(SL_LOG_WARN, "rank {}: replays of a communicator that has ended do not end; its memory is kept",
         handle->comm.rank());
    return;
  }
  const uint32_t graphs = handle->holds.load() - 1;
  if (graphs != 0) {
    Logf(SL_LOG_INFO, "rank {}: {} captured graphs keep the memory of a communicator that has ended",
         handle->comm.rank(), graphs);
    handle->comm.KeepMemoryOnly();
  }
  handle->is_dropped.store(true);
  if (handle->holds.fetch_sub(1) == 1) Delete(handle);
}

}  // namespace sl::kernel

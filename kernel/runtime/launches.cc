// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/launches.h"

#include <time.h>

#include "kernel/engine/run.h"
#include "kernel/events/last_error.h"
#include "kernel/runtime/copies.h"

namespace sl::kernel {
namespace {

// A call has recorded the end of its launches before it ends; in this order nothing slips through.
void EnterRoll(sl_comm_t* handle) {
  const auto may_run = [handle] {
    return handle->in_call().load(std::memory_order_seq_cst) != 0 || LaunchesMayRun(*handle);
  };
  handle->comm.WatchLaunches(may_run);
  handle->place = ProcessLaunchRoll()->Enter({
      .comm_id = handle->comm.id(),
      .may_run = may_run,
      .may_replay = [handle] { return handle->graphs() != 0; },
      .give_up = [handle](const Status& why) { handle->comm.FailLaunches(why); },
  });
}

}  // namespace

Status PrepareToIssue(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  const sl_host_kernel_t kernel = EngineKernel();
  const sl_image_desc_t desc{sizeof(desc), 1, &kernel, nullptr, 0, nullptr};
  sl_status_t status = SL_OK;
  if (device.is_watched()) status = device.ops->image_load(device.handle, &desc, &handle->engine_image);
  if (status == SL_OK) status = device.ops->event_create(device.handle, &handle->order_event);
  if (status == SL_OK) status = device.ops->event_create(device.handle, &handle->join_event);
  SL_TRY(StatusOf(status));
  if (handle->comm.is_relayed()) {
    SL_ASSIGN(handle->relay, Relay::Open(handle));
  }
  handle->oversubscribed = handle->comm.is_crowded();
  handle->signals_raised.resize(handle->comm.size());
  handle->signals_awaited.resize(handle->comm.size());
  if (Reach* reach = handle->comm.reach(); reach != nullptr) {
    reach->WatchUse([handle] { return !LaunchesMayRun(*handle); },
                    [handle] { return handle->in_call().load(std::memory_order_acquire) != 0; },
                    [handle] { return handle->calls.load(std::memory_order_relaxed); });
  }
  if (!device.is_watched()) EnterRoll(handle);
  return {};
}

void LeaveRoll(sl_comm_t* handle) {
  handle->comm.WatchLaunches({});
  if (handle->place != nullptr) ProcessLaunchRoll()->Leave(handle->place);
  handle->place = nullptr;
}

bool LaunchesMayRun(const sl_comm_t& handle) {
  const Device& device = handle.comm.device();
  const sl_status_t marked = device.ops->event_query(device.handle, handle.order_event);
  return marked == SL_ERR_AGAIN || (marked == SL_OK && handle.unmarked.load());  // else nothing runs on it any more
}

bool AwaitLaunches(sl_comm_t* handle, uint64_t deadline_ns) {
  if (handle->comm.device().is_watched() || !handle->eager.begun) return true;
  while (LaunchesMayRun(*handle)) {
    if (NowNs() >= deadline_ns) return false;
    if (handle->comm.is_stopped()) handle->comm.ReleaseSignals();
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

void StopIssuing(sl_comm_t* handle) {
  LeaveRoll(handle);
  handle->relay.reset();
  const Device& device = handle->comm.device();
  handle->watch.Stop();
  handle->comm.CloseReach();
  if (handle->engine_image != nullptr) device.ops->image_unload(device.handle, handle->engine_image);
  for (sl_event_t* event : {handle->order_event, handle->join_event}) {
    if (event != nullptr) device.ops->event_destroy(device.handle, event);
  }
  DestroySideStreams(handle);
}

}  // namespace sl::kernel

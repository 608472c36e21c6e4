// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/stream_order.h"

#include <cstdio>

#include "kernel/events/last_error.h"
#include "kernel/runtime/graph_hold.h"
#include "kernel/runtime/handle.h"

namespace sl::kernel {
namespace {

constexpr uint64_t kUnmarkedNs = 500'000'000;  // launches end some milliseconds after they are told to
constexpr uint64_t kUnmarkedLookNs = 1'000'000;

Result<IssueOrder*> OrderOfCapture(sl_comm_t* handle, uint64_t id, sl_stream_t* stream) {
  for (IssueOrder& order : handle->captured) {
    if (order.capture != 0 && order.capture_id == id) return &order;
  }
  SL_TRY(HoldByGraph(handle, handle->captures + 1, stream));
  handle->watch.Expect();  // who launches the graph later does not say so
  const uint64_t number = ++handle->captures;
  IssueOrder* order = &handle->captured[number % std::size(handle->captured)];
  *order = {.capture = number, .capture_id = id};
  return order;
}

// A handle may be that of another stream now: the driver gives it out again once its stream is destroyed, whose work
// goes on, and cudaStreamPerThread is a stream of every thread.
bool IsNewest(const IssueOrder& order, const Device& device, sl_stream_t* stream, uint64_t stream_id) {
  if (!order.begun || stream != order.stream) return false;
  return order.capture != 0 || device.is_watched() || (stream_id != 0 && stream_id == order.stream_id);
}

// `stream` goes on after the operations issued in this order so far.
Status ChainStreams(sl_comm_t* handle, IssueOrder* order, sl_stream_t* stream, uint64_t stream_id) {
  const Device& device = handle->comm.device();
  if (IsNewest(*order, device, stream, stream_id)) [[likely]]
    return {};
  const bool is_marked = order->capture == 0 && !device.is_watched();
  const bool may_run = !device.is_watched() || handle->pending.outstanding() != 0;
  if (order->begun && may_run) {
    sl_event_t* event = order->capture == 0 ? handle->order_event : handle->join_event;
    sl_status_t status = is_marked ? SL_OK : device.ops->event_record(device.handle, event, order->stream);
    if (status == SL_OK) status = device.ops->stream_wait_event(device.handle, stream, event);
    SL_TRY(StatusOf(status));
  }
  order->stream = stream;
  order->stream_id = stream_id;
  order->begun = true;
  return {};
}

// The stream cannot be asked later, when it may be gone.
Status EndUnmarked(sl_comm_t* handle, sl_stream_t* stream, const Status& why) {
  const Device& device = handle->comm.device();
  handle->comm.FailLaunches(why);
  const uint64_t deadline_ns = NowNs() + kUnmarkedNs;
  sl_status_t ended = SL_ERR_TIMEOUT;
  while (ended == SL_ERR_TIMEOUT && NowNs() < deadline_ns) {
    handle->comm.ReleaseSignals();  // the stream may come to one wait after the other
    ended = device.ops->stream_wait_idle(device.handle, stream, NowNs() + kUnmarkedLookNs);
  }
  if (ended != SL_OK) handle->unmarked.store(true);
  return why;
}

}  // namespace

// The likely way to a stream of another device: a program of GPUs whose communicator came before its first use of one.
Status CheckStream(const sl_comm_t* handle, sl_stream_t* stream) {
  const Device& device = handle->comm.device();
  if (stream == nullptr || stream == handle->eager.stream || !device.is_host()) [[likely]]
    return {};
  uint32_t state = 0;
  uint64_t id = 0;
  if (device.ops->capture_state(device.handle, stream, &state, &id) != SL_ERR_INVALID) return {};
  char text[320];
  std::snprintf(text, sizeof(text),
                "stream %p is no stream of the host, and this communicator lies in host memory because the process had "
                "not used CUDA when it was made, or because roles.device says so; call cudaSetDevice before making it, "
                "or set roles.device = \"cuda\"",
                static_cast<void*>(stream));
  return {SL_ERR_INVALID, text};
}

Result<bool> IsCaptured(const Device& device, sl_stream_t* stream, uint64_t* out_id) {
  if ((device.info.capabilities & SL_DEVICE_CAN_CAPTURE) == 0) return false;
  uint32_t state = 0;
  const sl_status_t status = device.ops->capture_state(device.handle, stream, &state, out_id);
  if (status != SL_OK) [[unlikely]]
    return StatusOf(status);
  return state != 0;
}

Result<IssueOrder*> JoinOrder(sl_comm_t* handle, sl_stream_t* stream) {
  uint64_t id = 0;
  SL_ASSIGN(const bool is_captured, IsCaptured(handle->comm.device(), stream, &id));
  IssueOrder* order = &handle->eager;
  if (is_captured) {
    SL_ASSIGN(order, OrderOfCapture(handle, id, stream));
  }
  SL_TRY(ChainStreams(handle, order, stream, is_captured ? 0 : id));
  return order;
}

// A program may destroy a stream whose work has ended, and then it must not be named any more.
Status MarkEnd(sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream) {
  const Device& device = handle->comm.device();
  if (device.is_watched() || order.capture != 0) return {};
  const sl_status_t status = device.ops->event_record(device.handle, handle->order_event, stream);
  handle->watch.Expect();
  return status == SL_OK ? Status() : EndUnmarked(handle, stream, StatusOf(status));
}

Status MarkEndOf(const Status& issued, sl_comm_t* handle, const IssueOrder& order, sl_stream_t* stream) {
  Status marked = MarkEnd(handle, order, stream);
  return issued.ok() ? marked : issued;
}

}  // namespace sl::kernel

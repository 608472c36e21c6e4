// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/issue.h"

#include "kernel/events/last_error.h"
#include "kernel/runtime/op_life.h"

namespace sl::kernel {
namespace {

Status IssueInline(sl_comm_t* handle, const sl_op_t& op) {
  // Not initialised as a whole: 4 KiB of arguments would cost more than the operation.
  alignas(Pending) std::byte memory[sizeof(Pending)];
  Pending* pending = new (memory) Pending;
  Enter(handle, op, pending);
  if (op.count == 0) return {};
  sl_launch_t launch;
  SL_TRY(FillLaunch(pending, &launch));
  const Device& device = handle->comm.device();
  return Leave(pending, device.ops->launch(device.handle, nullptr, &launch));
}

Status IssueOnStream(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  Pending* pending = handle->pending.Take();
  Enter(handle, op, pending);
  sl_launch_t launch;
  if (op.count == 0) {
    handle->pending.Give(pending);
    return {};
  }
  if (Status filled = FillLaunch(pending, &launch); !filled.ok()) {
    handle->pending.Give(pending);
    return filled;
  }
  launch.done = LeaveAndGive;
  launch.done_ctx = pending;
  const Device& device = handle->comm.device();
  const sl_status_t status = device.ops->launch(device.handle, stream, &launch);
  if (status == SL_OK) return {};
  return handle->comm.healthy() ? Status(status, LastError()) : handle->comm.Health();
}

}  // namespace

Status Issue(sl_comm_t* handle, const sl_op_t& op, sl_stream_t* stream) {
  const InCall in_call(handle);
  SL_TRY(CheckUsable(handle));
  SL_TRY(CheckOp(handle->comm, op));
  if ((op.kind == SL_OP_SEND || op.kind == SL_OP_RECV) && op.peer == static_cast<int32_t>(handle->comm.rank())) {
    return {SL_ERR_INVALID, "a send to the own rank needs its receive in the same group"};
  }
  handle->comm.selector()->Collect();
  SL_TRY(ChainStreams(handle, stream));
  return stream == nullptr ? IssueInline(handle, op) : IssueOnStream(handle, op, stream);
}

Status PrepareToIssue(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  const sl_host_kernel_t kernel = EngineKernel();
  const sl_image_desc_t desc{sizeof(desc), 1, &kernel, nullptr, 0, nullptr};
  sl_status_t status = device.ops->image_load(device.handle, &desc, &handle->engine_image);
  if (status == SL_OK) status = device.ops->event_create(device.handle, &handle->order_event);
  if (status != SL_OK) return {status, LastError()};
  handle->oversubscribed = handle->comm.shape().local_size > handle->comm.shape().processors;
  return {};
}

void StopIssuing(sl_comm_t* handle) {
  const Device& device = handle->comm.device();
  if (handle->engine_image != nullptr) device.ops->image_unload(device.handle, handle->engine_image);
  if (handle->order_event != nullptr) device.ops->event_destroy(device.handle, handle->order_event);
}

PendingPool::PendingPool() = default;
PendingPool::~PendingPool() = default;

Pending* PendingPool::Take() {
  outstanding_.fetch_add(1, std::memory_order_acq_rel);
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<Pending>());
    free_.push_back(all_.back().get());
  }
  Pending* pending = free_.back();
  free_.pop_back();
  return pending;
}

void PendingPool::Give(Pending* pending) {
  std::lock_guard lock(mutex_);
  pending->outcome = {};
  free_.push_back(pending);
  outstanding_.fetch_sub(1, std::memory_order_acq_rel);
}

}  // namespace sl::kernel

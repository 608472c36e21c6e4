// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernel/engine/run.h"
#include "kernel/events/last_error.h"

namespace sl::kernel {
namespace {

sl_status_t PollRun(const void* args, void* frame, sl_wait_t* wait) {
  Run* run = *static_cast<Run* const*>(args);
  const sl_status_t status = run->Poll(wait);
  if (status != SL_OK && status != SL_ERR_AGAIN) SetLastError(run->status());
  return status;
}

}  // namespace

sl_host_kernel_t EngineKernel() { return {"engine.run", PollRun, 0, 0}; }

RunPool::RunPool(const RunContext& context) : context_(context) {
  if (context.device_ops == nullptr) return;
  sl_device_info_t info{};
  info.struct_size = sizeof(info);
  host_memory_ =
      context.device_ops->info(context.device, &info) == SL_OK && (info.capabilities & SL_DEVICE_MEMORY_IS_HOST) != 0;
}

RunPool::~RunPool() { delete failure_.load(std::memory_order_acquire); }

Status RunPool::Start(const Plan& plan, const sl_op_t& op, Run** out_run) {
  if (failed()) return Status(SL_ERR_STATE, "the communicator has failed before: " + failure().message());
  if (!host_memory_)
    return Status(SL_ERR_UNSUPPORTED, "plans run on memory that the CPU can reach; this device has none");
  Run* run = free_.load(std::memory_order_acquire);
  while (run != nullptr && !free_.compare_exchange_weak(run, run->next_free_, std::memory_order_acquire)) {
  }
  if (run == nullptr) {
    runs_.push_back(std::unique_ptr<Run>(new Run(this)));
    run = runs_.back().get();
  }
  running_.fetch_add(1, std::memory_order_relaxed);
  Status status = run->Prepare(plan, op);
  Count(run);
  if (!status.ok()) {
    Recycle(run);
    return status;
  }
  *out_run = run;
  return Status();
}

void RunPool::Finish(Run* run, sl_status_t status) {
  if (!run->finished_) {
    const Driving driving = Driving::Await(context_.links);  // the keeper, who may be at the links, is done soon
    run->Stop(
        Status(status, fmt::format("rank {} {}: given up, {}", context_.rank, run->Describe(), StatusName(status))));
  }
  Recycle(run);
}

void RunPool::Recycle(Run* run) {
  running_.fetch_sub(1, std::memory_order_relaxed);
  run->next_free_ = free_.load(std::memory_order_relaxed);
  while (!free_.compare_exchange_weak(run->next_free_, run, std::memory_order_release)) {
  }
}

void RunPool::Fail(const Status& status) {
  if (failed()) return;
  auto failure = std::make_unique<const Status>(status);
  const Status* none = nullptr;
  if (failure_.compare_exchange_strong(none, failure.get(), std::memory_order_acq_rel)) {
    static_cast<void>(failure.release());  // the pool owns it now
  }
}

Status RunPool::failure() const {
  const Status* failure = failure_.load(std::memory_order_acquire);
  return failure == nullptr ? Status() : *failure;
}

// A run grows only while it is made ready.
void RunPool::Count(Run* run) {
  const uint64_t bytes = sizeof(Run) + sizeof(runs_[0]) + run->scratch_.capacity() +
                         run->lanes_.capacity() * sizeof(Run::LaneState) +
                         run->links_.capacity() * sizeof(Run::LinkState);
  if (bytes == run->counted_bytes_) return;
  memory_bytes_.fetch_add(bytes - run->counted_bytes_, std::memory_order_relaxed);
  run->counted_bytes_ = bytes;
}

}  // namespace sl::kernel

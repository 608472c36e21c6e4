// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/device.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "modules/device-cuda/image.h"
#include "modules/device-cuda/place.h"
#include "modules/device-cuda/reduce.h"
#include "modules/device-cuda/wait.h"

using sl::Result;
using sl::Status;
namespace cu = sl::device_cuda::cu;

namespace {

// Bytes of arguments one launch takes: more since compute capability 7.0 with CUDA 12.1 (CUDA Programming Guide, table
// of technical specifications).
constexpr uint32_t kFewArgumentBytes = 4096;
constexpr uint32_t kManyArgumentBytes = 32764;
// Zeroing runs when the GPU has room for it, which a program's own kernels may fill for long.
constexpr uint64_t kZeroTimeoutNs = 300'000'000'000;

}  // namespace

sl_instance_t::sl_instance_t(const sl_host_t* the_host, std::unique_ptr<sl::device_cuda::Driver> the_driver,
                             uint64_t drain_ns)
    : host(the_host), driver(std::move(the_driver)), drain_timeout_ns(drain_ns), owner_pid(getpid()) {}

void sl_instance_t::Close(sl_instance_t* instance) {
  if (instance == nullptr || instance->owner_pid != getpid()) return;
  for (sl_device_t* device : instance->devices_) delete device;
  delete instance;
}

Status sl_instance_t::Quiesce(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  quiescing_ = true;
  const auto ns = std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(deadline_ns, INT64_MAX)));
  const auto none_open = [this] { return devices_.empty(); };
  if (!changed_.wait_until(lock, std::chrono::steady_clock::time_point(ns), none_open)) {
    return {SL_ERR_TIMEOUT, "device-cuda: " + std::to_string(devices_.size()) + " openings of GPUs are not closed yet"};
  }
  if (const size_t holdings = allocations.Count() + mappings.Count(); holdings != 0) {
    return {SL_ERR_TIMEOUT,
            "device-cuda: " + std::to_string(holdings) + " allocations, reservations or mappings are not released yet"};
  }
  return {};
}

uint32_t sl_instance_t::CountDevices() {
  const Status status = driver->Initialise();
  if (status.ok()) return driver->device_count();
  std::lock_guard lock(mutex_);
  if (!told_) {
    told_ = true;
    const bool is_absent = status.code() == SL_ERR_NOT_FOUND;
    host->log(host->ctx, is_absent ? SL_LOG_DEBUG : SL_LOG_WARN, status.message().c_str());
  }
  return 0;
}

Result<sl_device_t*> sl_instance_t::OpenDevice(uint32_t ordinal) {
  SL_TRY(driver->Initialise());
  if (ordinal >= driver->device_count()) {
    return Status(SL_ERR_NOT_FOUND, "device-cuda: there is no device " + std::to_string(ordinal) +
                                        "; this process sees " + std::to_string(driver->device_count()) +
                                        " (CUDA_VISIBLE_DEVICES)");
  }
  SL_ASSIGN(std::unique_ptr<sl_device_t> device, sl_device_t::Open(this, ordinal));
  std::lock_guard lock(mutex_);
  if (quiescing_) return Status(SL_ERR_STATE, "device-cuda: the module is being unloaded");
  devices_.insert(device.get());
  return device.release();
}

void sl_instance_t::CloseDevice(sl_device_t* device) {
  if (owner_pid != getpid()) return;
  {
    std::lock_guard lock(mutex_);
    if (devices_.erase(device) == 0) return;
  }
  delete device;
  // Under the lock: the instance may be closed as soon as Quiesce returns.
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

sl_device_t::sl_device_t(sl_instance_t* the_instance, uint32_t the_ordinal, cu::Device the_id)
    : instance(the_instance), calls(the_instance->driver->calls()), ordinal(the_ordinal), id(the_id) {}

Result<std::unique_ptr<sl_device_t>> sl_device_t::Open(sl_instance_t* instance, uint32_t ordinal) {
  cu::Device id = 0;
  const cu::Code code = instance->driver->calls().DeviceGet(&id, static_cast<int>(ordinal));
  if (code != cu::kSuccess) {
    return instance->driver->FailureOf(code, "cuDeviceGet", "device " + std::to_string(ordinal));
  }
  std::unique_ptr<sl_device_t> device(new sl_device_t(instance, ordinal, id));
  const sl::device_cuda::BesideCaptures beside(device->calls);
  SL_TRY(SL_CUDA(*device, DevicePrimaryCtxRetain, &device->context, id));
  const sl::device_cuda::ContextScope scope(*device);
  SL_TRY(device->LearnFacts());
  SL_TRY(SL_CUDA(*device, StreamCreate, &device->zeroing_, cu::kStreamNonBlocking));
  return device;
}

sl_device_t::~sl_device_t() {
  if (context == nullptr) return;
  const sl::device_cuda::BesideCaptures beside(calls);
  {
    const sl::device_cuda::ContextScope scope(*this);
    for (sl_stream_t* stream : streams_) calls.StreamDestroy(reinterpret_cast<cu::Stream*>(stream));
    if (zeroing_ != nullptr) calls.StreamDestroy(zeroing_);
    delete reductions_.load();
  }
  calls.DevicePrimaryCtxRelease(id);
}

Status sl_device_t::Failure(cu::Code code, const char* call) const {
  return instance->driver->FailureOf(code, call, "device " + std::to_string(ordinal));
}

int sl_device_t::Attribute(cu::DeviceAttribute attribute) const {
  int value = 0;
  return calls.DeviceGetAttribute(&value, attribute, id) == cu::kSuccess ? value : 0;
}

Status sl_device_t::LearnFacts() {
  info.struct_size = sizeof(info);
  info.kind = SL_DEVICE_CUDA;
  capability = Attribute(cu::kComputeCapabilityMajor) * 10 + Attribute(cu::kComputeCapabilityMinor);
  info.capabilities = SL_DEVICE_CAN_CAPTURE;
  if (Attribute(cu::kCanUse64BitStreamMemOps) != 0) info.capabilities |= SL_DEVICE_CAN_WRITE_VALUE;
  SL_TRY(SL_CUDA(*this, DeviceGetName, info.name, static_cast<int>(sizeof(info.name)), id));
  SL_TRY(SL_CUDA(*this, DeviceGetPCIBusId, info.pci_path, static_cast<int>(sizeof(info.pci_path)), id));
  size_t bytes = 0;
  SL_TRY(SL_CUDA(*this, DeviceTotalMem, &bytes, id));
  info.memory_bytes = bytes;
  info.processors = static_cast<uint32_t>(Attribute(cu::kMultiprocessorCount));
  const bool takes_many = capability >= 70 && instance->driver->version() >= 12010;
  info.max_argument_bytes = takes_many ? kManyArgumentBytes : kFewArgumentBytes;
  if (Attribute(cu::kVirtualMemoryManagementSupported) != 0 && Attribute(cu::kHandleTypePosixFdSupported) != 0) {
    const cu::AllocationProp prop = sl::device_cuda::ExportableProp(*this, false);
    size_t granularity = 0;
    SL_TRY(SL_CUDA(*this, MemGetAllocationGranularity, &granularity, &prop, cu::kGranularityRecommended));
    info.export_granularity = granularity;
    info.capabilities |= SL_DEVICE_CAN_EXPORT;
  }
  SL_ASSIGN(const sl::device_cuda::Place place, sl::device_cuda::FindPlace(info.pci_path));
  static_assert(sizeof(place.domain) == sizeof(info.domain));
  memcpy(info.domain, place.domain, sizeof(info.domain));
  info.clique = place.clique;
  info.numa_node = place.numa_node;
  return {};
}

Result<sl_stream_t*> sl_device_t::CreateStream() {
  std::set<sl_stream_t*> entry = {nullptr};
  cu::Stream* stream = nullptr;
  SL_TRY(SL_CUDA(*this, StreamCreate, &stream, cu::kStreamNonBlocking));
  auto node = entry.extract(entry.begin());
  node.value() = reinterpret_cast<sl_stream_t*>(stream);
  std::lock_guard lock(mutex_);
  streams_.insert(std::move(node));
  return reinterpret_cast<sl_stream_t*>(stream);
}

Status sl_device_t::DestroyStream(sl_stream_t* stream) {
  {
    std::lock_guard lock(mutex_);
    if (streams_.erase(stream) == 0) {
      return {SL_ERR_INVALID, "device-cuda: device " + std::to_string(ordinal) +
                                  ": no stream that was created here, or it was destroyed"};
    }
  }
  auto* native = reinterpret_cast<cu::Stream*>(stream);
  const Status drained = WaitIdle(native, sl::NowNs() + instance->drain_timeout_ns);
  if (drained.code() == SL_ERR_TIMEOUT) {
    instance->host->log(
        instance->host->ctx, SL_LOG_WARN,
        "a stream was destroyed with work that did not end in time; a GPU cannot cancel it, it goes on");
  }
  return SL_CUDA(*this, StreamDestroy, native);
}

Result<sl_image_t*> sl_device_t::Reductions() {
  if (sl_image_t* loaded = reductions_.load(std::memory_order_acquire); loaded != nullptr) return loaded;
  const sl::device_cuda::BesideCaptures beside(calls);
  std::lock_guard lock(mutex_);
  if (reductions_.load(std::memory_order_relaxed) == nullptr) {
    SL_ASSIGN(sl_image_t * loaded, sl::device_cuda::LoadReductions(*this));
    reductions_.store(loaded, std::memory_order_release);  // pairs with the load above
  }
  return reductions_.load(std::memory_order_relaxed);
}

Status sl_device_t::WaitIdle(cu::Stream* stream, uint64_t deadline_ns) const {
  sl::device_cuda::Naps naps;
  for (;;) {
    const cu::Code code = calls.StreamQuery(stream);
    if (code != cu::kNotReady) return Check(code, "cuStreamQuery");
    if (deadline_ns == 0) return Status(SL_ERR_AGAIN);
    if (!naps.Nap(deadline_ns)) {
      return {SL_ERR_TIMEOUT,
              "device-cuda: device " + std::to_string(ordinal) + ": the stream's work did not end before the deadline"};
    }
  }
}

Status sl_device_t::Zero(cu::Address address, uint64_t bytes) const {
  SL_TRY(SL_CUDA(*this, MemsetD8Async, address, 0, bytes, zeroing_));
  return WaitIdle(zeroing_, sl::NowNs() + kZeroTimeoutNs);
}

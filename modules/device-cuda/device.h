// SPDX-License-Identifier: Apache-2.0
//
// The opened module and its devices. Every opening of a GPU is an object of its own over the GPU's one primary context,
// the context that the CUDA runtime uses, too.
#ifndef STARLING_MODULES_DEVICE_CUDA_DEVICE_H_
#define STARLING_MODULES_DEVICE_CUDA_DEVICE_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "modules/device-cuda/allocations.h"
#include "modules/device-cuda/driver.h"
#include "modules/device-cuda/mappings.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::device_cuda {

// Calls one function of the driver on behalf of `device`; a Status that names it, the device and the remedy.
#define SL_CUDA(device, name, ...) (device).Check((device).calls.name(__VA_ARGS__), "cu" #name)

}  // namespace sl::device_cuda

struct sl_instance_t {
  sl_instance_t(const sl_host_t* the_host, std::unique_ptr<sl::device_cuda::Driver> the_driver, uint64_t drain_ns);
  // Closes what is still open; in a child of fork, where CUDA does not work, leaves everything as it is.
  static void Close(sl_instance_t* instance);
  // Returns when no device is open and nothing is allocated; SL_ERR_TIMEOUT names what is.
  sl::Status Quiesce(uint64_t deadline_ns);

  // 0 when there is no GPU, or the driver does not start; why that is, is logged once.
  uint32_t CountDevices();
  sl::Result<sl_device_t*> OpenDevice(uint32_t ordinal);
  void CloseDevice(sl_device_t* device);

  const sl_host_t* const host;
  const std::unique_ptr<sl::device_cuda::Driver> driver;
  const uint64_t drain_timeout_ns;
  const pid_t owner_pid;
  sl::device_cuda::Allocations allocations;
  sl::device_cuda::Mappings mappings;

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::set<sl_device_t*> devices_;
  bool quiescing_ = false;
  bool told_ = false;  // why there is no device
};

struct sl_device_t {
  // Retains the primary context.
  static sl::Result<std::unique_ptr<sl_device_t>> Open(sl_instance_t* instance, uint32_t ordinal);
  // Destroys the streams that are left and releases the context.
  ~sl_device_t();
  sl_device_t(const sl_device_t&) = delete;
  sl_device_t& operator=(const sl_device_t&) = delete;

  sl::Status Check(sl::device_cuda::cu::Code code, const char* call) const {
    if (code == sl::device_cuda::cu::kSuccess) return {};
    return Failure(code, call);
  }
  sl::Status Failure(sl::device_cuda::cu::Code code, const char* call) const;
  // 0 where the driver does not know the attribute.
  int Attribute(sl::device_cuda::cu::DeviceAttribute attribute) const;

  // The following need the context to be current.
  sl::Result<sl_stream_t*> CreateStream();
  // Waits for the stream's work, a bounded time; what is not done then goes on without the stream.
  sl::Status DestroyStream(sl_stream_t* stream);
  // SL_ERR_AGAIN at once when the deadline is 0, SL_ERR_TIMEOUT at the deadline.
  sl::Status WaitIdle(sl::device_cuda::cu::Stream* stream, uint64_t deadline_ns) const;
  // The kernels of reduce(), loaded by the first call.
  sl::Result<sl_image_t*> Reductions();
  // Complete on return, and in order with nothing else: legal beside captures.
  sl::Status Zero(sl::device_cuda::cu::Address address, uint64_t bytes) const;

  sl_instance_t* const instance;
  const sl::device_cuda::Calls& calls;
  const uint32_t ordinal;
  const sl::device_cuda::cu::Device id;
  sl::device_cuda::cu::Context* context = nullptr;
  int capability = 0;  // 90 is compute capability 9.0
  sl_device_info_t info{};

 private:
  sl_device_t(sl_instance_t* the_instance, uint32_t the_ordinal, sl::device_cuda::cu::Device the_id);
  sl::Status LearnFacts();

  sl::device_cuda::cu::Stream* zeroing_ = nullptr;  // for Zero
  std::mutex mutex_;
  std::set<sl_stream_t*> streams_;                // made here; guarded by mutex_
  std::atomic<sl_image_t*> reductions_{nullptr};  // written under mutex_
};

namespace sl::device_cuda {

// Makes a device's context current for a scope; one call and nothing else where it is current already. When that fails,
// so does the call it is made for, and says why.
class ContextScope {
 public:
  explicit ContextScope(const sl_device_t& device) : calls_(device.calls) {
    cu::Context* current = nullptr;
    calls_.CtxGetCurrent(&current);
    if (current != device.context) [[unlikely]] {
      is_pushed_ = calls_.CtxPushCurrent(device.context) == cu::kSuccess;
    }
  }
  ~ContextScope() {
    cu::Context* ours = nullptr;
    if (is_pushed_) calls_.CtxPopCurrent(&ours);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const Calls& calls_;
  bool is_pushed_ = false;
};

// Lets this thread do for a scope what would break a capture into a graph that it, or another thread, has under way.
class BesideCaptures {
 public:
  explicit BesideCaptures(const Calls& calls) : calls_(calls) { calls_.ThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { calls_.ThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  const Calls& calls_;
  cu::CaptureMode mode_ = cu::kCaptureModeRelaxed;
};

extern const sl_device_ops_t kDeviceOps;

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver for tests, a library called libcuda.so.1: GPUs whose memory is this host's, and streams whose work is
// done by whoever asks for it. It keeps to the driver's rules where this module could break them: a context must be
// current, memory comes dirty, sizes are checked, nothing unsafe happens beside a capture.
//
// SL_FAKE_CUDA_DEVICES says how many GPUs there are (2 unless said), SL_FAKE_CUDA_FABRIC=1 that fabric handles can be
// made, SL_FAKE_CUDA_OLD=1 that it is a driver of CUDA 11.7, which does not tell what is mapped anew,
// SL_FAKE_CUDA_VMM=0 that memory cannot be mapped by hand, SL_FAKE_CUDA_FREE_WAITS=1 that freeing and unmapping wait
// for the work of all streams, as on GPUs, SL_FAKE_CUDA_PEERS=0 that no GPU reaches the memory of another one,
// SL_FAKE_CUDA_REGISTER=0 that memory of the host cannot be pinned where it lies.
#ifndef STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_DRIVER_H_
#define STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "modules/device-cuda/driver.h"

namespace cu = sl::device_cuda::cu;

#define SL_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

// Every function, with the very signature by which the module calls it.
#define SL_FAKE_DECLARE(name, symbol, parameters) SL_FAKE_EXPORT cu::Code symbol parameters;
SL_CUDA_CALLS(SL_FAKE_DECLARE)
SL_CUDA_OPTIONAL_CALLS(SL_FAKE_DECLARE)
#undef SL_FAKE_DECLARE

// What only programs call (tools/gpu/cuda_api.h).
SL_FAKE_EXPORT cu::Code cuCtxSetCurrent(cu::Context* context);
SL_FAKE_EXPORT cu::Code cuCtxSynchronize();
SL_FAKE_EXPORT cu::Code cuMemcpyHtoDAsync_v2(cu::Address to, const void* from, size_t bytes, cu::Stream* stream);
SL_FAKE_EXPORT cu::Code cuMemcpyDtoHAsync_v2(void* to, cu::Address from, size_t bytes, cu::Stream* stream);
SL_FAKE_EXPORT cu::Code cuMemcpyDtoDAsync_v2(cu::Address to, cu::Address from, size_t bytes, cu::Stream* stream);
SL_FAKE_EXPORT cu::Code cuStreamBeginCapture_v2(cu::Stream* stream, int mode);
SL_FAKE_EXPORT cu::Code cuStreamEndCapture(cu::Stream* stream, void** out_graph);
SL_FAKE_EXPORT cu::Code cuGraphInstantiateWithFlags(void** out, void* graph, unsigned long long flags);
SL_FAKE_EXPORT cu::Code cuGraphLaunch(void* graph, cu::Stream* stream);
SL_FAKE_EXPORT cu::Code cuGraphDestroy(void* graph);
SL_FAKE_EXPORT cu::Code cuGraphExecDestroy(void* graph);

// An image of this driver's: "binary" of sl_image_desc_t.
struct FakeKernel {
  const char* name;                                               // NULL behind the last
  bool (*run)(const void* args, size_t bytes);                    // whether it is done; until then it is called again
  void (*run_block)(const void* args, uint32_t block) = nullptr;  // used where `run` is NULL; may wait for others
};
struct FakeImage {
  uint64_t magic;  // kFakeImageMagic
  int capability;  // that it was compiled for; the GPUs have 90
  const FakeKernel* kernels;
};
inline constexpr uint64_t kFakeImageMagic = 0x46414b45494d4147u;

// What tests do to the driver, found by dlsym.

// The next call of `call` ("cuMemAlloc_v2") gives `code`.
SL_FAKE_EXPORT void sl_fake_cuda_fail(const char* call, cu::Code code);
// The same of a later call, before which `others` succeed.
SL_FAKE_EXPORT void sl_fake_cuda_fail_later(const char* call, uint64_t others, cu::Code code);
// How often the primary context of a device is retained.
SL_FAKE_EXPORT int sl_fake_cuda_retained(int device);
// How often a function was called by this process.
SL_FAKE_EXPORT uint64_t sl_fake_cuda_calls(const char* call);
// Of the latest launch.
SL_FAKE_EXPORT cu::LaunchConfig sl_fake_cuda_last_launch(cu::LaunchAttribute* out_attributes);

namespace sl::fake_cuda {

// One primary context.
struct Context {
  int device;
  int retained;
};

// How every function begins: an error that a test asked for, or CUDA was not initialised in this process.
cu::Code Enter(const char* call);
// The same for what needs a context; `unsafe`: and may not be done beside a capture, unless the thread is relaxed.
cu::Code EnterInContext(const char* call, bool unsafe);
cu::Context* CurrentContext();
int DeviceOf(const cu::Context* context);

// Held by every function.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

// What frees or unmaps waits here before it takes the lock, where it waits for all streams of the process.
void AwaitStreams();
// Whether a capture forbids the calling thread what is unsafe.
bool IsForbiddenByCapture();
// Whether a word may be waited for and written: memory of cuMemHostAlloc.
bool IsHostMemory(cu::Address address);
bool IsOld();

}  // namespace sl::fake_cuda

#define SL_FAKE_ENTER(name)       \
  const sl::fake_cuda::Lock lock; \
  if (const cu::Code code = sl::fake_cuda::Enter(#name); code != cu::kSuccess) return code
#define SL_FAKE_ENTER_CONTEXT(name, unsafe) \
  const sl::fake_cuda::Lock lock;           \
  if (const cu::Code code = sl::fake_cuda::EnterInContext(#name, unsafe); code != cu::kSuccess) return code

#endif  // STARLING_MODULES_DEVICE_CUDA_TESTS_FAKE_DRIVER_H_

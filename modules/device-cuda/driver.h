// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver: libcuda.so.1, opened at run time, and what its errors mean. Nothing of CUDA is linked, so that this
// module loads into any process and says in words that there is no driver.
#ifndef STARLING_MODULES_DEVICE_CUDA_DRIVER_H_
#define STARLING_MODULES_DEVICE_CUDA_DRIVER_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "modules/device-cuda/driver_types.h"
#include "sdk/status.h"

// X(name, symbol, parameters): every function used. A symbol's suffix fixes its signature for ever, so they are looked
// up by the library's own names; all but the optional ones exist since CUDA 11.7.
#define SL_CUDA_CALLS(X)                                                                                               \
  X(GetErrorName, cuGetErrorName, (cu::Code code, const char** out))                                                   \
  X(GetErrorString, cuGetErrorString, (cu::Code code, const char** out))                                               \
  X(Init, cuInit, (unsigned flags))                                                                                    \
  X(DriverGetVersion, cuDriverGetVersion, (int* out))                                                                  \
  X(DeviceGetCount, cuDeviceGetCount, (int* out))                                                                      \
  X(DeviceGet, cuDeviceGet, (cu::Device * out, int ordinal))                                                           \
  X(DeviceGetName, cuDeviceGetName, (char* out, int length, cu::Device device))                                        \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* out, int length, cu::Device device))                                \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t * out, cu::Device device))                                            \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int* out, cu::DeviceAttribute attribute, cu::Device device))            \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int* out, cu::Device device, cu::Device peer))                        \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (cu::Context * *out, cu::Device device))                         \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (cu::Device device))                                        \
  X(DevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, (cu::Device device, unsigned* flags, int* active))           \
  X(CtxGetCurrent, cuCtxGetCurrent, (cu::Context * *out))                                                              \
  X(CtxPushCurrent, cuCtxPushCurrent_v2, (cu::Context * context))                                                      \
  X(CtxPopCurrent, cuCtxPopCurrent_v2, (cu::Context * *out))                                                           \
  X(CtxGetDevice, cuCtxGetDevice, (cu::Device * out))                                                                  \
  X(CtxEnablePeerAccess, cuCtxEnablePeerAccess, (cu::Context * peer, unsigned flags))                                  \
  X(MemAlloc, cuMemAlloc_v2, (cu::Address * out, size_t bytes))                                                        \
  X(MemFree, cuMemFree_v2, (cu::Address address))                                                                      \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                          \
  X(MemHostAlloc, cuMemHostAlloc, (void** out, size_t bytes, unsigned flags))                                          \
  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (cu::Address * out, void* host, unsigned flags))            \
  X(MemHostRegister, cuMemHostRegister_v2, (void* host, size_t bytes, unsigned flags))                                 \
  X(MemHostUnregister, cuMemHostUnregister, (void* host))                                                              \
  X(MemFreeHost, cuMemFreeHost, (void* host))                                                                          \
  X(MemcpyAsync, cuMemcpyAsync, (cu::Address to, cu::Address from, size_t bytes, cu::Stream * stream))                 \
  X(MemsetD8Async, cuMemsetD8Async, (cu::Address to, unsigned char value, size_t count, cu::Stream* stream))           \
  X(PointerGetAttributes, cuPointerGetAttributes,                                                                      \
    (unsigned count, cu::PointerAttribute* attributes, void** out, cu::Address address))                               \
  X(MemGetAddressRange, cuMemGetAddressRange_v2, (cu::Address * base, size_t * bytes, cu::Address address))            \
  X(IpcGetMemHandle, cuIpcGetMemHandle, (cu::IpcHandle * out, cu::Address address))                                    \
  X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, (cu::Address * out, cu::IpcHandle handle, unsigned flags))                \
  X(IpcCloseMemHandle, cuIpcCloseMemHandle, (cu::Address address))                                                     \
  X(MemGetAllocationGranularity, cuMemGetAllocationGranularity,                                                        \
    (size_t * out, const cu::AllocationProp* prop, int option))                                                        \
  X(MemCreate, cuMemCreate,                                                                                            \
    (cu::Memory * out, size_t bytes, const cu::AllocationProp* prop, unsigned long long flags))                        \
  X(MemRelease, cuMemRelease, (cu::Memory memory))                                                                     \
  X(MemAddressReserve, cuMemAddressReserve,                                                                            \
    (cu::Address * out, size_t bytes, size_t alignment, cu::Address hint, unsigned long long flags))                   \
  X(MemAddressFree, cuMemAddressFree, (cu::Address address, size_t bytes))                                             \
  X(MemMap, cuMemMap, (cu::Address address, size_t bytes, size_t offset, cu::Memory memory, unsigned long long flags)) \
  X(MemUnmap, cuMemUnmap, (cu::Address address, size_t bytes))                                                         \
  X(MemSetAccess, cuMemSetAccess, (cu::Address address, size_t bytes, const cu::AccessDesc* desc, size_t n))           \
  X(MemRetainAllocationHandle, cuMemRetainAllocationHandle, (cu::Memory * out, void* address))                         \
  X(MemExportToShareableHandle, cuMemExportToShareableHandle,                                                          \
    (void* out, cu::Memory memory, cu::HandleType type, unsigned long long flags))                                     \
  X(MemImportFromShareableHandle, cuMemImportFromShareableHandle,                                                      \
    (cu::Memory * out, void* handle, cu::HandleType type))                                                             \
  X(StreamCreate, cuStreamCreate, (cu::Stream * *out, unsigned flags))                                                 \
  X(StreamDestroy, cuStreamDestroy_v2, (cu::Stream * stream))                                                          \
  X(StreamQuery, cuStreamQuery, (cu::Stream * stream))                                                                 \
  X(StreamWaitEvent, cuStreamWaitEvent, (cu::Stream * stream, cu::Event * event, unsigned flags))                      \
  X(StreamWriteValue64, cuStreamWriteValue64_v2,                                                                       \
    (cu::Stream * stream, cu::Address word, uint64_t value, unsigned flags))                                           \
  X(StreamWaitValue64, cuStreamWaitValue64_v2,                                                                         \
    (cu::Stream * stream, cu::Address word, uint64_t value, unsigned flags))                                           \
  X(StreamBatchMemOp, cuStreamBatchMemOp_v2,                                                                           \
    (cu::Stream * stream, unsigned count, cu::StreamMemoryOp* ops, unsigned flags))                                    \
  X(StreamGetCaptureInfo, cuStreamGetCaptureInfo, (cu::Stream * stream, cu::CaptureStatus * out, uint64_t * id))       \
  X(StreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2,                                                                \
    (cu::Stream * stream, cu::CaptureStatus * out, uint64_t * id, cu::Graph * *graph, const void** dependencies,       \
     size_t* count))                                                                                                   \
  X(UserObjectCreate, cuUserObjectCreate,                                                                              \
    (cu::UserObject * *out, void* ctx, void (*destroy)(void*), unsigned count, unsigned flags))                        \
  X(GraphRetainUserObject, cuGraphRetainUserObject,                                                                    \
    (cu::Graph * graph, cu::UserObject * object, unsigned count, unsigned flags))                                      \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, (cu::CaptureMode * mode))                      \
  X(LaunchHostFunc, cuLaunchHostFunc, (cu::Stream * stream, void (*run)(void*), void* ctx))                            \
  X(EventCreate, cuEventCreate, (cu::Event * *out, unsigned flags))                                                    \
  X(EventDestroy, cuEventDestroy_v2, (cu::Event * event))                                                              \
  X(EventRecord, cuEventRecord, (cu::Event * event, cu::Stream * stream))                                              \
  X(EventQuery, cuEventQuery, (cu::Event * event))                                                                     \
  X(ModuleLoadData, cuModuleLoadData, (cu::Module * *out, const void* image))                                          \
  X(ModuleUnload, cuModuleUnload, (cu::Module * module))                                                               \
  X(ModuleGetFunction, cuModuleGetFunction, (cu::Function * *out, cu::Module * module, const char* name))              \
  X(FuncGetAttribute, cuFuncGetAttribute, (int* out, cu::FunctionAttribute attribute, cu::Function* function))         \
  X(FuncSetAttribute, cuFuncSetAttribute, (cu::Function * function, cu::FunctionAttribute attribute, int value))       \
  X(LaunchKernelEx, cuLaunchKernelEx,                                                                                  \
    (const cu::LaunchConfig* config, cu::Function* function, void** parameters, void** extra))

// NULL where the driver is older: cuStreamGetId came with CUDA 12.0, cuFuncLoad with 12.4.
#define SL_CUDA_OPTIONAL_CALLS(X)                                                  \
  X(StreamGetId, cuStreamGetId, (cu::Stream * stream, unsigned long long* out_id)) \
  X(FuncLoad, cuFuncLoad, (cu::Function * function))

namespace sl::device_cuda {

struct Calls {
#define SL_CUDA_MEMBER(name, symbol, parameters) cu::Code(*name) parameters = nullptr;
  SL_CUDA_CALLS(SL_CUDA_MEMBER)
  SL_CUDA_OPTIONAL_CALLS(SL_CUDA_MEMBER)
#undef SL_CUDA_MEMBER
};

// The library and its state in this process. All calls from any thread.
class Driver {
 public:
  // Opens the library and finds its functions; CUDA is not initialised by that.
  // returns: SL_ERR_NOT_FOUND no driver, or one that is too old; the text says which
  static Result<std::unique_ptr<Driver>> Load();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const Calls& calls() const { return calls_; }
  // Initialises CUDA in this process, at the first call.   returns: SL_ERR_NOT_FOUND no GPU | as FailureOf says
  Status Initialise();
  // Devices that this process may use, once it is initialised.
  uint32_t device_count() const { return device_count_; }
  // As the driver counts: 12040 is CUDA 12.4.
  int version() const { return version_; }
  // The device the calling thread uses, where the process uses CUDA by itself. Never initialises it.
  Result<uint32_t> Current() const;

  // What a failed call means: a status, and a text that names the place ("device 3"), the call, the driver's own words
  // and what helps.
  Status FailureOf(cu::Code code, const char* call, const std::string& place) const;

 private:
  explicit Driver(void* library) : library_(library) {}
  Status FindCalls();
  Status InitialiseLocked();

  void* const library_;
  Calls calls_;
  std::mutex mutex_;  // guards the first initialisation
  bool is_initialised_ = false;
  Status outcome_;                      // of the initialisation; guarded by mutex_
  std::atomic<bool> was_first_{false};  // nobody had initialised CUDA before us
  uint32_t device_count_ = 0;
  int version_ = 0;
};

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_DRIVER_H_

// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and errors of the fake driver.
#include "modules/device-cuda/tests/fake_driver.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace sl::fake_cuda {
namespace {

constexpr int kMaxDevices = 8;
constexpr uint64_t kMemoryBytes = uint64_t{80} << 30;

struct Failure {
  uint64_t others;  // that succeed before
  cu::Code code;
};

struct State {
  std::recursive_mutex mutex;
  pid_t initialised_by = 0;
  int device_count = 0;
  Context contexts[kMaxDevices] = {};
  std::map<std::string, Failure> failures;  // by call, once each
  std::map<std::string, uint64_t> calls;
  std::vector<std::unique_ptr<std::vector<cu::Context*>>> context_stacks;  // of all threads, those that ended, too
};
State& TheState() {
  static auto* const state = new State;
  return *state;
}

// The calling thread's. A handler of exit() may call the driver after the thread's own objects are gone.
std::vector<cu::Context*>& ContextStack() {
  thread_local std::vector<cu::Context*>* stack = nullptr;
  if (stack == nullptr) {
    const std::lock_guard lock(TheState().mutex);
    stack = TheState().context_stacks.emplace_back(std::make_unique<std::vector<cu::Context*>>()).get();
  }
  return *stack;
}

thread_local cu::CaptureMode capture_mode = 0;

int Setting(const char* name, int fallback) {
  const char* text = getenv(name);
  return text == nullptr ? fallback : atoi(text);
}

Context* Inside(cu::Context* context) { return reinterpret_cast<Context*>(context); }

bool IsDevice(int device) { return device >= 0 && device < TheState().device_count; }

}  // namespace

Lock::Lock() { TheState().mutex.lock(); }
Lock::~Lock() { TheState().mutex.unlock(); }

bool IsOld() { return Setting("SL_FAKE_CUDA_OLD", 0) != 0; }

cu::Code Enter(const char* call) {
  State& state = TheState();
  ++state.calls[call];
  if (const auto found = state.failures.find(call); found != state.failures.end()) {
    if (found->second.others-- == 0) {
      const cu::Code code = found->second.code;
      state.failures.erase(found);
      return code;
    }
  }
  return state.initialised_by == getpid() ? cu::kSuccess : cu::kNotInitialized;
}

cu::Code EnterInContext(const char* call, bool unsafe) {
  if (const cu::Code code = Enter(call); code != cu::kSuccess) return code;
  if (CurrentContext() == nullptr || Inside(CurrentContext())->retained == 0) return cu::kInvalidContext;
  if (unsafe && IsForbiddenByCapture() && capture_mode != cu::kCaptureModeRelaxed) return cu::kStreamCaptureUnsupported;
  return cu::kSuccess;
}

cu::Context* CurrentContext() {
  const std::vector<cu::Context*>& stack = ContextStack();
  return stack.empty() ? nullptr : stack.back();
}
int DeviceOf(const cu::Context* context) { return reinterpret_cast<const Context*>(context)->device; }

}  // namespace sl::fake_cuda

using namespace sl::fake_cuda;  // NOLINT(google-build-using-namespace)

void sl_fake_cuda_fail(const char* call, cu::Code code) { sl_fake_cuda_fail_later(call, 0, code); }

void sl_fake_cuda_fail_later(const char* call, uint64_t others, cu::Code code) {
  const Lock lock;
  TheState().failures[call] = {others, code};
}

uint64_t sl_fake_cuda_calls(const char* call) {
  const Lock lock;
  return TheState().calls[call];
}

int sl_fake_cuda_retained(int device) {
  const Lock lock;
  return TheState().contexts[device].retained;
}

cu::Code cuGetErrorName(cu::Code code, const char** out) {
  static const std::map<cu::Code, const char*> kNames = {
      {cu::kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {cu::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {cu::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {cu::kNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {cu::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {cu::kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {cu::kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {cu::kSystemDriverMismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
  };
  const auto found = kNames.find(code);
  *out = found == kNames.end() ? nullptr : found->second;
  return found == kNames.end() ? cu::kInvalidValue : cu::kSuccess;
}

cu::Code cuGetErrorString(cu::Code code, const char** out) {
  *out = code == cu::kOutOfMemory ? "out of memory" : nullptr;
  return *out == nullptr ? cu::kInvalidValue : cu::kSuccess;
}

cu::Code cuInit(unsigned) {
  const Lock lock;
  State& state = TheState();
  const cu::Code code = Enter("cuInit");
  if (code != cu::kSuccess && code != cu::kNotInitialized) return code;
  if (state.initialised_by != 0 && state.initialised_by != getpid()) return cu::kNotInitialized;
  state.device_count = Setting("SL_FAKE_CUDA_DEVICES", 2);
  if (state.device_count == 0) return cu::kNoDevice;
  for (int i = 0; i < kMaxDevices; ++i) state.contexts[i].device = i;
  state.initialised_by = getpid();
  return cu::kSuccess;
}

cu::Code cuDriverGetVersion(int* out) {
  *out = IsOld() ? 11070 : 13000;
  return cu::kSuccess;
}

cu::Code cuDeviceGetCount(int* out) {
  SL_FAKE_ENTER(cuDeviceGetCount);
  *out = TheState().device_count;
  return cu::kSuccess;
}

cu::Code cuDeviceGet(cu::Device* out, int ordinal) {
  SL_FAKE_ENTER(cuDeviceGet);
  if (!IsDevice(ordinal)) return cu::kInvalidDevice;
  *out = ordinal;
  return cu::kSuccess;
}

cu::Code cuDeviceGetName(char* out, int length, cu::Device device) {
  SL_FAKE_ENTER(cuDeviceGetName);
  snprintf(out, static_cast<size_t>(length), "Fake GPU %d", device);
  return cu::kSuccess;
}

cu::Code cuDeviceGetPCIBusId(char* out, int length, cu::Device device) {
  SL_FAKE_ENTER(cuDeviceGetPCIBusId);
  snprintf(out, static_cast<size_t>(length), "0000:%02X:00.0", 0xa0 + device);
  return cu::kSuccess;
}

cu::Code cuDeviceTotalMem_v2(size_t* out, cu::Device) {
  SL_FAKE_ENTER(cuDeviceTotalMem);
  *out = kMemoryBytes;
  return cu::kSuccess;
}

cu::Code cuDeviceGetAttribute(int* out, cu::DeviceAttribute attribute, cu::Device device) {
  SL_FAKE_ENTER(cuDeviceGetAttribute);
  static const std::map<cu::DeviceAttribute, int> kFacts = {
      {cu::kMultiprocessorCount, Setting("SL_FAKE_CUDA_SMS", 132)},
      {cu::kComputeCapabilityMajor, 9},
      {cu::kComputeCapabilityMinor, 0},
      {cu::kMaxSharedMemoryPerBlockOptin, 232448},
      {cu::kVirtualMemoryManagementSupported, 1},
      {cu::kHandleTypePosixFdSupported, 1},
      {cu::kGpuDirectRdmaWithVmmSupported, 1},
      {cu::kCanUse64BitStreamMemOps, 1},
      {cu::kHandleTypeFabricSupported, 1},
  };
  const auto found = kFacts.find(attribute);
  if (found == kFacts.end() || !IsDevice(device)) return cu::kInvalidValue;
  *out = found->second;
  if (attribute == cu::kVirtualMemoryManagementSupported) *out = Setting("SL_FAKE_CUDA_VMM", 1);
  return cu::kSuccess;
}

cu::Code cuDevicePrimaryCtxRetain(cu::Context** out, cu::Device device) {
  SL_FAKE_ENTER(cuDevicePrimaryCtxRetain);
  if (!IsDevice(device)) return cu::kInvalidDevice;
  Context& context = TheState().contexts[device];
  ++context.retained;
  *out = reinterpret_cast<cu::Context*>(&context);
  return cu::kSuccess;
}

cu::Code cuDevicePrimaryCtxRelease_v2(cu::Device device) {
  SL_FAKE_ENTER(cuDevicePrimaryCtxRelease);
  if (!IsDevice(device) || TheState().contexts[device].retained == 0) return cu::kInvalidContext;
  --TheState().contexts[device].retained;
  return cu::kSuccess;
}

cu::Code cuDevicePrimaryCtxGetState(cu::Device device, unsigned* flags, int* active) {
  SL_FAKE_ENTER(cuDevicePrimaryCtxGetState);
  *flags = 0;
  *active = TheState().contexts[device].retained > 0 ? 1 : 0;
  return cu::kSuccess;
}

cu::Code cuCtxGetCurrent(cu::Context** out) {
  SL_FAKE_ENTER(cuCtxGetCurrent);
  *out = CurrentContext();
  return cu::kSuccess;
}

cu::Code cuCtxPushCurrent_v2(cu::Context* context) {
  SL_FAKE_ENTER(cuCtxPushCurrent);
  if (context == nullptr || Inside(context)->retained == 0) return cu::kInvalidContext;
  ContextStack().push_back(context);
  return cu::kSuccess;
}

cu::Code cuCtxPopCurrent_v2(cu::Context** out) {
  SL_FAKE_ENTER(cuCtxPopCurrent);
  if (ContextStack().empty()) return cu::kInvalidContext;
  *out = ContextStack().back();
  ContextStack().pop_back();
  return cu::kSuccess;
}

cu::Code cuCtxEnablePeerAccess(cu::Context* peer, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuCtxEnablePeerAccess, true);
  if (peer == nullptr) return cu::kInvalidContext;
  static std::set<cu::Context*> enabled;
  return enabled.insert(peer).second ? cu::kSuccess : cu::kPeerAccessAlreadyEnabled;
}

cu::Code cuDeviceCanAccessPeer(int* out, cu::Device device, cu::Device peer) {
  SL_FAKE_ENTER(cuDeviceCanAccessPeer);
  if (!IsDevice(device) || !IsDevice(peer)) return cu::kInvalidValue;
  *out = device != peer && Setting("SL_FAKE_CUDA_PEERS", 1) != 0 ? 1 : 0;
  return cu::kSuccess;
}

cu::Code cuCtxSetCurrent(cu::Context* context) {
  SL_FAKE_ENTER(cuCtxSetCurrent);
  if (!ContextStack().empty()) ContextStack().pop_back();
  if (context != nullptr) ContextStack().push_back(context);
  return cu::kSuccess;
}

cu::Code cuCtxGetDevice(cu::Device* out) {
  SL_FAKE_ENTER_CONTEXT(cuCtxGetDevice, false);
  *out = DeviceOf(CurrentContext());
  return cu::kSuccess;
}

cu::Code cuThreadExchangeStreamCaptureMode(cu::CaptureMode* mode) {
  SL_FAKE_ENTER(cuThreadExchangeStreamCaptureMode);
  std::swap(*mode, capture_mode);
  return cu::kSuccess;
}

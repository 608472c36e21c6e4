// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/driver.h"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

namespace sl::device_cuda {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

// What codes of the driver are to callers of sl.device/1, and what helps. What is not listed is a device error.
struct Meaning {
  cu::Code code;
  sl_status_t status;
  const char* remedy;
};
constexpr char kRestart[] = "the device's context is lost; restart the process, compute-sanitizer finds the kernel";
constexpr char kCapture[] = "this call cannot be made while that stream is captured into a graph";
constexpr Meaning kMeanings[] = {
    {cu::kInvalidValue, SL_ERR_INVALID, "an address, size or handle is not what this call takes"},
    {cu::kOutOfMemory, SL_ERR_DEVICE_MEMORY, "use smaller buffers, or free memory; nvidia-smi shows who holds it"},
    {cu::kNotInitialized, SL_ERR_STATE, "a child of fork cannot use CUDA that its parent initialised; start it anew"},
    {cu::kDeinitialized, SL_ERR_STATE, "the process is ending"},
    {cu::kStubLibrary, SL_ERR_NOT_FOUND, "the toolkit's stub was found for the driver; take it off LD_LIBRARY_PATH"},
    {cu::kDeviceUnavailable, SL_ERR_DENIED,
     "another process holds the device exclusively; see nvidia-smi -q -d COMPUTE"},
    {cu::kNoDevice, SL_ERR_NOT_FOUND, "no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    {cu::kInvalidDevice, SL_ERR_NOT_FOUND, "check CUDA_VISIBLE_DEVICES"},
    {cu::kInvalidImage, SL_ERR_INVALID, "the image is no fatbin, cubin or PTX"},
    {cu::kInvalidContext, SL_ERR_STATE, "the device's context is gone; was the device reset?"},
    {cu::kMapFailed, SL_ERR_DEVICE_MEMORY, "address space is short; check ulimit -v and vm.max_map_count"},
    {cu::kNoBinaryForGpu, SL_ERR_UNSUPPORTED, "build the image for this GPU"},
    {cu::kEccUncorrectable, SL_ERR_DEVICE, "the memory of the GPU is faulty; see nvidia-smi -q -d ECC"},
    {cu::kPeerAccessUnsupported, SL_ERR_UNSUPPORTED, "these GPUs cannot reach each other's memory"},
    {cu::kInvalidPtx, SL_ERR_UNSUPPORTED, "build the image for this GPU"},
    {cu::kNvlinkUncorrectable, SL_ERR_DEVICE, "a link of the GPU failed; see nvidia-smi nvlink -e"},
    {cu::kJitCompilerNotFound, SL_ERR_UNSUPPORTED,
     "build the image for this GPU, or install the driver's PTX compiler"},
    {cu::kUnsupportedPtxVersion, SL_ERR_UNSUPPORTED, "build the image for this GPU, or use a newer driver"},
    {cu::kOperatingSystem, SL_ERR_SYSTEM, "the system refused; check ulimit -l, ulimit -n and the kernel's log"},
    {cu::kInvalidHandle, SL_ERR_INVALID, "the stream, event or image is not alive, or of another device"},
    {cu::kNotFound, SL_ERR_NOT_FOUND, "check the name"},
    {cu::kIllegalAddress, SL_ERR_DEVICE, kRestart},
    {cu::kLaunchOutOfResources, SL_ERR_LIMIT, "use fewer threads, registers or less shared memory"},
    {cu::kLaunchTimeout, SL_ERR_DEVICE, kRestart},
    {cu::kContextIsDestroyed, SL_ERR_STATE, "the device's context is gone; was the device reset?"},
    {cu::kAssert, SL_ERR_DEVICE, kRestart},
    {cu::kTooManyPeers, SL_ERR_LIMIT, "this GPU maps the memory of too many others"},
    {cu::kHardwareStackError, SL_ERR_DEVICE, kRestart},
    {cu::kIllegalInstruction, SL_ERR_DEVICE, kRestart},
    {cu::kMisalignedAddress, SL_ERR_DEVICE, kRestart},
    {cu::kInvalidAddressSpace, SL_ERR_DEVICE, kRestart},
    {cu::kInvalidPc, SL_ERR_DEVICE, kRestart},
    {cu::kLaunchFailed, SL_ERR_DEVICE, kRestart},
    {cu::kCooperativeLaunchTooLarge, SL_ERR_LIMIT, "use fewer blocks, so that all are resident at once"},
    {cu::kNotPermitted, SL_ERR_DENIED, "check the rights of this process, and IMEX channels for fabric handles"},
    {cu::kNotSupported, SL_ERR_UNSUPPORTED, "this GPU, driver or virtual machine does not offer it"},
    {cu::kSystemNotReady, SL_ERR_DEVICE, "start the fabric manager; see systemctl status nvidia-fabricmanager"},
    {cu::kSystemDriverMismatch, SL_ERR_DEVICE, "the kernel's driver and libcuda.so.1 differ; restart the machine"},
    {cu::kCompatNotSupportedOnDevice, SL_ERR_DEVICE, "take CUDA's compat folder off LD_LIBRARY_PATH"},
    {cu::kMpsMaxClientsReached, SL_ERR_LIMIT, "too many processes use this GPU through MPS"},
    {cu::kStreamCaptureUnsupported, SL_ERR_STATE, kCapture},
    {cu::kStreamCaptureInvalidated, SL_ERR_STATE, "the capture was broken by an earlier call; end it"},
    {cu::kStreamCaptureIsolation, SL_ERR_STATE, kCapture},
    {cu::kStreamCaptureImplicit, SL_ERR_STATE, "the default stream cannot be used while another is captured"},
    {cu::kCapturedEvent, SL_ERR_STATE, "the event was recorded in a capture and says nothing outside of it"},
    {cu::kStreamCaptureWrongThread, SL_ERR_STATE, kCapture},
    {cu::kInvalidClusterSize, SL_ERR_LIMIT, "use smaller clusters"},
};

constexpr Meaning MeaningOf(cu::Code code) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.code == code) return meaning;
  }
  return {code, SL_ERR_DEVICE, "see nvidia-smi and the kernel's log (Xid)"};
}

Status Absent(std::string what) { return {SL_ERR_NOT_FOUND, "no CUDA driver: " + std::move(what)}; }

}  // namespace

Result<std::unique_ptr<Driver>> Driver::Load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Absent(why != nullptr ? why : kLibrary);
  }
  std::unique_ptr<Driver> driver(new Driver(library));
  SL_TRY(driver->FindCalls());
  return driver;
}

// Once initialised the driver has threads and stays for the process.
Driver::~Driver() {
  if (!is_initialised_) dlclose(library_);
}

Status Driver::FindCalls() {
  const char* missing = nullptr;
  const auto find = [&](const char* symbol, auto** out) {
    void* found = dlsym(library_, symbol);
    *out = reinterpret_cast<std::remove_reference_t<decltype(*out)>>(found);
    return found != nullptr;
  };
#define SL_CUDA_FIND(name, symbol, parameters) \
  if (!find(#symbol, &calls_.name)) missing = #symbol;
  SL_CUDA_CALLS(SL_CUDA_FIND)
#undef SL_CUDA_FIND
#define SL_CUDA_TRY(name, symbol, parameters) find(#symbol, &calls_.name);
  SL_CUDA_OPTIONAL_CALLS(SL_CUDA_TRY)
#undef SL_CUDA_TRY
  if (missing == nullptr) return {};
  return Absent(std::string(kLibrary) + " lacks " + missing + "; a driver of CUDA 11.7 or newer (515) is needed");
}

Status Driver::Initialise() {
  std::lock_guard lock(mutex_);
  if (!is_initialised_) {
    outcome_ = InitialiseLocked();
    is_initialised_ = true;
  }
  return outcome_;
}

Status Driver::InitialiseLocked() {
  cu::Context* context = nullptr;
  const bool first = calls_.CtxGetCurrent(&context) == cu::kNotInitialized;
  if (const cu::Code code = calls_.Init(0); code != cu::kSuccess) return FailureOf(code, "cuInit", "");
  was_first_.store(first);
  int count = 0;
  if (const cu::Code code = calls_.DeviceGetCount(&count); code != cu::kSuccess) {
    return FailureOf(code, "cuDeviceGetCount", "");
  }
  if (const cu::Code code = calls_.DriverGetVersion(&version_); code != cu::kSuccess) {
    return FailureOf(code, "cuDriverGetVersion", "");
  }
  device_count_ = static_cast<uint32_t>(count);
  return {};
}

Result<uint32_t> Driver::Current() const {
  cu::Context* context = nullptr;
  if (calls_.CtxGetCurrent(&context) != cu::kSuccess) {
    return Status(SL_ERR_NOT_FOUND, "device-cuda: this process does not use CUDA");
  }
  int count = 0;
  calls_.DeviceGetCount(&count);
  cu::Device current = 0;
  const bool has_current = context != nullptr && calls_.CtxGetDevice(&current) == cu::kSuccess;
  bool is_used = !was_first_.load();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cu::Device device = 0;
    unsigned flags = 0;
    int active = 0;
    if (calls_.DeviceGet(&device, ordinal) != cu::kSuccess) continue;
    if (has_current && device == current) return static_cast<uint32_t>(ordinal);
    if (calls_.DevicePrimaryCtxGetState(device, &flags, &active) == cu::kSuccess) is_used = is_used || active != 0;
  }
  if (count > 0 && is_used) return uint32_t{0};
  return Status(SL_ERR_NOT_FOUND, "device-cuda: this process has not used a GPU yet");
}

Status Driver::FailureOf(cu::Code code, const char* call, const std::string& place) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (calls_.GetErrorName(code, &name) != cu::kSuccess) name = nullptr;
  if (calls_.GetErrorString(code, &words) != cu::kSuccess) words = nullptr;
  const Meaning meaning = MeaningOf(code);
  std::string text = "device-cuda: ";
  if (!place.empty()) text += place + ": ";
  text += std::string(call) + ": " + (name != nullptr ? name : "CUDA error " + std::to_string(code));
  if (words != nullptr) text += std::string(" (") + words + ")";
  return {meaning.status, text + "; " + meaning.remedy};
}

}  // namespace sl::device_cuda

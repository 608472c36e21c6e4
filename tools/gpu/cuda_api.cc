// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/cuda_api.h"
#include "sdk/clock.h"

#include <dlfcn.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace sl::gpu {
namespace {

constexpr int kNotReady = 600;
constexpr int kOutOfMemory = 2;
constexpr size_t kArenaBytes = size_t{1} << 30;  // unless SL_GPU_ARENA says otherwise
constexpr double kCopySeconds = 30;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kOnEveryDevice = 3;  // pinned host memory: portable, and mapped
constexpr unsigned kAtLeast = 0;
constexpr int kRelaxedCapture = 2;

// As the driver's C interface has them.
struct Location {
  int type;
  int device;
};
struct AllocationProp {
  int type;
  int handle_types;
  Location location;
  void* unused;
  unsigned char flags[8];
};
struct AccessDesc {
  Location location;
  int flags;
};
constexpr int kPinned = 1;
constexpr int kDescriptor = 1;
constexpr int kOnDevice = 1;
constexpr int kReadWrite = 3;

// Of the driver's C interface; a status is an int, handles are pointers, device addresses 64-bit numbers.
struct Driver {
  int (*init)(unsigned);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*version)(int*);
  int (*primary_retain)(void**, int);
  int (*set_current)(void*);
  int (*allocate)(uint64_t*, size_t);
  int (*memory_info)(size_t*, size_t*);  // NULL: a driver for tests, which cannot tell
  int (*to_device)(uint64_t, const void*, size_t, void*);
  int (*from_device)(void*, uint64_t, size_t, void*);
  int (*on_device)(uint64_t, uint64_t, size_t, void*);
  int (*stream_create)(void**, unsigned);
  int (*stream_destroy)(void*);
  int (*stream_query)(void*);
  int (*stream_wait)(void*, uint64_t, uint64_t, unsigned);
  int (*host_alloc)(void**, size_t, unsigned);
  int (*synchronize)();
  int (*begin_capture)(void*, int);
  int (*end_capture)(void*, void**);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*launch)(void*, void*);
  int (*graph_destroy)(void*);
  int (*exec_destroy)(void*);
  int (*error_name)(int, const char**);
  // Mapping by hand.
  int (*reserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long);
  int (*create)(uint64_t*, size_t, const struct AllocationProp*, unsigned long long);
  int (*map)(uint64_t, size_t, size_t, uint64_t, unsigned long long);
  int (*set_access)(uint64_t, size_t, const struct AccessDesc*, size_t);
  int (*unmap)(uint64_t, size_t);
  int (*release)(uint64_t);
};
Driver driver;

void Check(int status, const char* call) {
  if (status == 0) return;
  const char* name = "?";
  if (driver.error_name != nullptr) driver.error_name(status, &name);
  std::fprintf(stderr, "%s: %s (%d)\n", call, name, status);
  std::fflush(stderr);
  std::_Exit(1);
}

template <typename Function>
bool Find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

uint64_t Address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

double Seconds() { return static_cast<double>(NowNs()) * 1e-9; }

bool IsIdle(CudaStream stream) {
  const int status = driver.stream_query(stream);
  if (status != kNotReady) Check(status, "cuStreamQuery");
  return status == 0;
}

// What a thread has of its device.
struct Arena {
  uint8_t* base = nullptr;
  size_t used = 0;
  size_t live = 0;
  CudaStream copies = nullptr;
};
thread_local std::map<int, Arena> arenas;
thread_local int current = -1;

Arena& MyArena() { return arenas[current]; }

size_t ArenaBytes() {
  const char* text = std::getenv("SL_GPU_ARENA");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kArenaBytes;
}

std::string FindDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return "no CUDA driver (libcuda.so.1)";
  const bool found =
      Find(library, "cuInit", &driver.init) && Find(library, "cuDeviceGetCount", &driver.device_count) &&
      Find(library, "cuDeviceGet", &driver.device_get) && Find(library, "cuDeviceGetName", &driver.device_name) &&
      Find(library, "cuDriverGetVersion", &driver.version) &&
      Find(library, "cuDevicePrimaryCtxRetain", &driver.primary_retain) &&
      Find(library, "cuCtxSetCurrent", &driver.set_current) && Find(library, "cuMemAlloc_v2", &driver.allocate) &&
      Find(library, "cuMemcpyHtoDAsync_v2", &driver.to_device) &&
      Find(library, "cuMemcpyDtoHAsync_v2", &driver.from_device) &&
      Find(library, "cuMemcpyDtoDAsync_v2", &driver.on_device) &&
      Find(library, "cuStreamCreate", &driver.stream_create) &&
      Find(library, "cuStreamDestroy_v2", &driver.stream_destroy) &&
      Find(library, "cuStreamQuery", &driver.stream_query) && Find(library, "cuCtxSynchronize", &driver.synchronize) &&
      Find(library, "cuStreamWaitValue64_v2", &driver.stream_wait) &&
      Find(library, "cuMemHostAlloc", &driver.host_alloc) &&
      Find(library, "cuStreamBeginCapture_v2", &driver.begin_capture) &&
      Find(library, "cuStreamEndCapture", &driver.end_capture) &&
      Find(library, "cuGraphInstantiateWithFlags", &driver.instantiate) &&
      Find(library, "cuGraphLaunch", &driver.launch) && Find(library, "cuGraphDestroy", &driver.graph_destroy) &&
      Find(library, "cuGraphExecDestroy", &driver.exec_destroy) &&
      Find(library, "cuGetErrorName", &driver.error_name) && Find(library, "cuMemAddressReserve", &driver.reserve) &&
      Find(library, "cuMemCreate", &driver.create) && Find(library, "cuMemMap", &driver.map) &&
      Find(library, "cuMemSetAccess", &driver.set_access) && Find(library, "cuMemUnmap", &driver.unmap) &&
      Find(library, "cuMemRelease", &driver.release);
  if (!found) return "the CUDA driver is too old: a function is missing";
  if (!Find(library, "cuMemGetInfo_v2", &driver.memory_info)) driver.memory_info = nullptr;
  if (driver.init(0) != 0) return "the CUDA driver does not start";
  return DeviceCount() == 0 ? "no GPU" : "";
}

}  // namespace

std::string OpenCuda() {
  static const std::string why_not = FindDriver();
  return why_not;
}

int DeviceCount() {
  int count = 0;
  Check(driver.device_count(&count), "cuDeviceGetCount");
  return count;
}

std::string DeviceName(int ordinal) {
  int device = 0;
  char name[256] = {};
  Check(driver.device_get(&device, ordinal), "cuDeviceGet");
  Check(driver.device_name(name, sizeof name, device), "cuDeviceGetName");
  return name;
}

int DriverVersion() {
  int version = 0;
  Check(driver.version(&version), "cuDriverGetVersion");
  return version;
}

size_t FreeMemory() {
  size_t available = 0;
  size_t total = 0;
  if (driver.memory_info != nullptr) Check(driver.memory_info(&available, &total), "cuMemGetInfo");
  return available;
}

void UseDevice(int ordinal) {
  int device = 0;
  void* context = nullptr;
  Check(driver.device_get(&device, ordinal), "cuDeviceGet");
  Check(driver.primary_retain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(driver.set_current(context), "cuCtxSetCurrent");
  current = ordinal;
  if (MyArena().base != nullptr) return;
  uint64_t base = 0;
  Check(driver.allocate(&base, ArenaBytes()), "cuMemAlloc");
  MyArena().base = reinterpret_cast<uint8_t*>(base);
  MyArena().copies = MakeStream();
}

uint8_t* AllocateWhole(size_t bytes) {
  uint64_t base = 0;
  Check(driver.allocate(&base, bytes), "cuMemAlloc");
  return reinterpret_cast<uint8_t*>(base);
}

void* Allocate(size_t bytes) {
  Arena& arena = MyArena();
  if (arena.used + bytes > ArenaBytes()) Check(kOutOfMemory, "the test's arena");
  void* memory = arena.base + arena.used;
  arena.used += (bytes + 255) / 256 * 256;
  ++arena.live;
  return memory;
}

void Free(void*) {
  Arena& arena = MyArena();
  if (--arena.live == 0) arena.used = 0;
}

uint8_t* Reserve(size_t bytes) {
  uint64_t address = 0;
  Check(driver.reserve(&address, bytes, kPieceBytes, 0, 0), "cuMemAddressReserve");
  return reinterpret_cast<uint8_t*>(address);
}

void MapPiece(uint8_t* at, bool shared) {
  int device = 0;
  Check(driver.device_get(&device, current), "cuDeviceGet");
  const AllocationProp prop = {kPinned, shared ? kDescriptor : 0, {kOnDevice, device}, nullptr, {}};
  const AccessDesc access = {prop.location, kReadWrite};
  uint64_t memory = 0;
  Check(driver.create(&memory, kPieceBytes, &prop, 0), "cuMemCreate");
  Check(driver.map(Address(at), kPieceBytes, 0, memory, 0), "cuMemMap");
  Check(driver.set_access(Address(at), kPieceBytes, &access, 1), "cuMemSetAccess");
  Check(driver.release(memory), "cuMemRelease");
}

void UnmapPiece(uint8_t* at) { Check(driver.unmap(Address(at), kPieceBytes), "cuMemUnmap"); }

void ToDevice(void* to, const void* from, size_t bytes) {
  Check(driver.to_device(Address(to), from, bytes, MyArena().copies), "cuMemcpyHtoDAsync");
  if (!WaitFor(MyArena().copies, kCopySeconds)) Check(kNotReady, "a copy to the device");
}
void FromDevice(void* to, const void* from, size_t bytes) {
  Check(driver.from_device(to, Address(from), bytes, MyArena().copies), "cuMemcpyDtoHAsync");
  if (!WaitFor(MyArena().copies, kCopySeconds)) Check(kNotReady, "a copy from the device");
}

void CopyOnDevice(void* to, const void* from, size_t bytes) {
  Check(driver.on_device(Address(to), Address(from), bytes, MyArena().copies), "cuMemcpyDtoDAsync");
  if (!WaitFor(MyArena().copies, kCopySeconds)) Check(kNotReady, "a copy on the device");
}

CudaStream MakeStream() {
  void* stream = nullptr;
  Check(driver.stream_create(&stream, kNonBlocking), "cuStreamCreate");
  return stream;
}

void DestroyStream(CudaStream stream) { Check(driver.stream_destroy(stream), "cuStreamDestroy"); }

bool WaitFor(CudaStream stream, double seconds) {
  const double deadline = Seconds() + seconds;
  while (!IsIdle(stream)) {
    if (Seconds() > deadline) return false;
    const timespec nap{0, 20'000};
    nanosleep(&nap, nullptr);
  }
  return true;
}

bool SpinFor(CudaStream stream, double seconds) {
  const double deadline = Seconds() + seconds;
  while (!IsIdle(stream)) {
    if (Seconds() > deadline) return false;
  }
  return true;
}

uint64_t* HoldStream(CudaStream stream) {
  void* memory = nullptr;
  Check(driver.host_alloc(&memory, sizeof(uint64_t), kOnEveryDevice), "cuMemHostAlloc");
  auto* word = static_cast<uint64_t*>(memory);
  *word = 0;
  Check(driver.stream_wait(stream, Address(word), 1, kAtLeast), "cuStreamWaitValue64");
  return word;
}

void LetStream(uint64_t* word) { std::atomic_ref<uint64_t>(*word).store(1); }

void WaitForDevice() { Check(driver.synchronize(), "cuCtxSynchronize"); }

void BeginCapture(CudaStream stream) { Check(driver.begin_capture(stream, kRelaxedCapture), "cuStreamBeginCapture"); }

CudaGraphExec EndCapture(CudaStream stream) {
  CudaGraph graph = nullptr;
  CudaGraphExec made = nullptr;
  Check(driver.end_capture(stream, &graph), "cuStreamEndCapture");
  Check(driver.instantiate(&made, graph, 0), "cuGraphInstantiate");
  Check(driver.graph_destroy(graph), "cuGraphDestroy");
  return made;
}

void Launch(CudaGraphExec graph, CudaStream stream) { Check(driver.launch(graph, stream), "cuGraphLaunch"); }
void DestroyGraph(CudaGraphExec graph) { Check(driver.exec_destroy(graph), "cuGraphExecDestroy"); }

}  // namespace sl::gpu

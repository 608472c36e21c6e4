// SPDX-License-Identifier: Apache-2.0
// Memory of the fake driver: every allocation is a memfd, so that other processes can map it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "modules/device-cuda/tests/fake_driver.h"

namespace sl::fake_cuda {
namespace {

constexpr uint64_t kGranularity = 65536;
constexpr uint64_t kMostBytes = uint64_t{1} << 36;
constexpr int kDirt = 0xdb;

// What cuMemCreate made, alive while a handle or a mapping refers to it.
struct Physical {
  int fd;
  uint64_t bytes;
  uint64_t block_id;
  unsigned handle_types;
  bool is_imported = false;
  int references = 1;
};

struct Range {
  uint64_t bytes;
  unsigned type;
  uint64_t id;
  bool is_ipc_capable = false;
  bool is_ipc_mapping = false;
  bool is_registered = false;  // the program's own
  int fd = -1;                 // of plain memory
  Physical* physical = nullptr;
  int device = -2;  // as the driver says of the host's
};

struct State {
  std::map<cu::Address, Range> ranges;
  std::map<cu::Address, uint64_t> reservations;
  std::map<int, uint64_t> taken;  // of a device's memory by this process
  uint64_t last_id = 0;
};
State& TheState() {
  static auto* const state = new State;
  return *state;
}

void* At(cu::Address address) { return reinterpret_cast<void*>(address); }
cu::Address AddressOf(const void* pointer) { return reinterpret_cast<cu::Address>(pointer); }

std::map<cu::Address, Range>::iterator RangeOf(cu::Address address) {
  auto& ranges = TheState().ranges;
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return ranges.end();
  --next;
  return address - next->first < next->second.bytes ? next : ranges.end();
}

// Shared memory nobody has zeroed, which tells by its name where it lies.
constexpr char kFileName[] = "fake gpu ";

int DeviceOfFile(int fd) {
  char target[128] = {};
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof(target) - 1) < 0) return -1;
  const char* name = strstr(target, kFileName);
  return name == nullptr ? -1 : atoi(name + strlen(kFileName));
}

int MakeDirtyFile(uint64_t bytes, int device) {
  const std::string name = kFileName + std::to_string(device);
  const int fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return -1;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  memset(memory, kDirt, bytes);
  munmap(memory, bytes);
  TheState().taken[device] += bytes;
  return fd;
}

void CloseFile(int fd, uint64_t bytes) {
  TheState().taken[DeviceOfFile(fd)] -= bytes;
  close(fd);
}

void Unreference(Physical* physical) {
  if (--physical->references > 0) return;
  if (physical->is_imported) {
    close(physical->fd);
  } else {
    CloseFile(physical->fd, physical->bytes);
  }
  delete physical;
}

Physical* Inside(cu::Memory memory) { return reinterpret_cast<Physical*>(memory); }

struct IpcContent {
  pid_t pid;
  int fd;
  uint64_t bytes;
};

}  // namespace

bool IsHostMemory(cu::Address address) {
  const auto found = RangeOf(address);
  return found != TheState().ranges.end() && found->second.type == cu::kMemoryTypeHost;
}

}  // namespace sl::fake_cuda

using namespace sl::fake_cuda;  // NOLINT(google-build-using-namespace)

cu::Code cuMemAlloc_v2(cu::Address* out, size_t bytes) {
  SL_FAKE_ENTER_CONTEXT(cuMemAlloc, true);
  if (bytes == 0) return cu::kInvalidValue;
  if (bytes > kMostBytes) return cu::kOutOfMemory;
  const int fd = MakeDirtyFile(bytes, DeviceOf(CurrentContext()));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  *out = AddressOf(memory);
  Range range{bytes, cu::kMemoryTypeDevice, ++TheState().last_id};
  range.is_ipc_capable = true;
  range.device = DeviceOf(CurrentContext());
  range.fd = fd;
  TheState().ranges.emplace(*out, range);
  return cu::kSuccess;
}

cu::Code cuMemFree_v2(cu::Address address) {
  AwaitStreams();
  SL_FAKE_ENTER_CONTEXT(cuMemFree, true);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || found->second.fd < 0) return cu::kInvalidValue;
  munmap(At(address), found->second.bytes);
  CloseFile(found->second.fd, found->second.bytes);
  TheState().ranges.erase(found);
  return cu::kSuccess;
}

cu::Code cuMemHostAlloc(void** out, size_t bytes, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuMemHostAlloc, true);
  if (bytes == 0 || (flags & cu::kHostAllocDeviceMap) == 0) return cu::kInvalidValue;
  if (bytes > kMostBytes) return cu::kOutOfMemory;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, kDirt, bytes);
  TheState().ranges.emplace(AddressOf(memory), Range{bytes, cu::kMemoryTypeHost, ++TheState().last_id});
  *out = memory;
  return cu::kSuccess;
}

cu::Code cuMemHostRegister_v2(void* host, size_t bytes, unsigned flags) {
  SL_FAKE_ENTER_CONTEXT(cuMemHostRegister, true);
  if (const char* can = getenv("SL_FAKE_CUDA_REGISTER"); can != nullptr && *can == '0') return cu::kNotSupported;
  if (bytes == 0 || (flags & cu::kHostRegisterDeviceMap) == 0) return cu::kInvalidValue;
  Range range{bytes, cu::kMemoryTypeHost, ++TheState().last_id};
  range.is_registered = true;
  return TheState().ranges.emplace(AddressOf(host), range).second ? cu::kSuccess : cu::kInvalidValue;
}

cu::Code cuMemHostUnregister(void* host) {
  AwaitStreams();
  SL_FAKE_ENTER_CONTEXT(cuMemHostUnregister, true);
  const auto found = TheState().ranges.find(AddressOf(host));
  if (found == TheState().ranges.end() || !found->second.is_registered) return cu::kInvalidValue;
  TheState().ranges.erase(found);
  return cu::kSuccess;
}

cu::Code cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  SL_FAKE_ENTER_CONTEXT(cuMemGetInfo, false);
  *free_bytes = kMostBytes - TheState().taken[DeviceOf(CurrentContext())];
  *total_bytes = 2 * kMostBytes;
  return cu::kSuccess;
}

cu::Code cuMemHostGetDevicePointer_v2(cu::Address* out, void* host, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuMemHostGetDevicePointer, false);
  if (!IsHostMemory(AddressOf(host))) return cu::kInvalidValue;
  *out = AddressOf(host);
  return cu::kSuccess;
}

cu::Code cuMemFreeHost(void* host) {
  AwaitStreams();
  SL_FAKE_ENTER_CONTEXT(cuMemFreeHost, true);
  const auto found = TheState().ranges.find(AddressOf(host));
  if (found == TheState().ranges.end() || found->second.type != cu::kMemoryTypeHost || found->second.is_registered) {
    return cu::kInvalidValue;
  }
  munmap(host, found->second.bytes);
  TheState().ranges.erase(found);
  return cu::kSuccess;
}

// Unknown addresses are no error: every fact of them is 0.
cu::Code cuPointerGetAttributes(unsigned count, cu::PointerAttribute* attributes, void** out, cu::Address address) {
  SL_FAKE_ENTER_CONTEXT(cuPointerGetAttributes, false);
  const auto found = RangeOf(address);
  const bool is_known = found != TheState().ranges.end();
  const Range range = is_known ? found->second : Range{0, 0, 0};
  uint64_t base = is_known ? found->first : 0;
  uint64_t bytes = range.bytes;
  if (range.physical != nullptr) {
    const auto reservation = --TheState().reservations.upper_bound(base);
    base = reservation->first;
    bytes = reservation->second;
  }
  const bool has_handle = range.physical != nullptr;
  for (unsigned i = 0; i < count; ++i) {
    const auto put32 = [&](unsigned value) { memcpy(out[i], &value, sizeof(value)); };
    const auto put64 = [&](uint64_t value) { memcpy(out[i], &value, sizeof(value)); };
    switch (attributes[i]) {
      case cu::kMemoryType:
        put32(range.type);
        break;
      case cu::kBufferId:
        put64(has_handle && IsOld() ? base : range.id);  // the same, whatever is mapped there
        break;
      case cu::kDeviceOrdinal:
        put32(static_cast<unsigned>(range.device));
        break;
      case cu::kIsLegacyIpcCapable:
        put32(range.is_ipc_capable ? 1 : 0);
        break;
      case cu::kRangeStart:
        put64(base);
        break;
      case cu::kRangeSize:
        put64(bytes);
        break;
      case cu::kAllowedHandleTypes:
        put32(has_handle ? range.physical->handle_types : 0);
        break;
      case cu::kMempoolHandle:
        put64(0);
        break;
      case cu::kMemoryBlockId:
        put64(has_handle ? range.physical->block_id : range.id);
        break;
      default:
        return cu::kInvalidValue;
    }
    if (IsOld() && attributes[i] > cu::kMempoolHandle) return cu::kInvalidValue;
  }
  return cu::kSuccess;
}

cu::Code cuMemGetAddressRange_v2(cu::Address* base, size_t* bytes, cu::Address address) {
  SL_FAKE_ENTER_CONTEXT(cuMemGetAddressRange, false);
  const auto found = RangeOf(address);
  if (found == TheState().ranges.end() || found->second.type != cu::kMemoryTypeDevice) return cu::kNotFound;
  *base = found->first;
  *bytes = found->second.bytes;
  return cu::kSuccess;
}

cu::Code cuIpcGetMemHandle(cu::IpcHandle* out, cu::Address address) {
  SL_FAKE_ENTER_CONTEXT(cuIpcGetMemHandle, true);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || !found->second.is_ipc_capable) return cu::kInvalidValue;
  const IpcContent content = {getpid(), found->second.fd, found->second.bytes};
  memset(out, 0, sizeof(*out));
  memcpy(out, &content, sizeof(content));
  return cu::kSuccess;
}

cu::Code cuIpcOpenMemHandle_v2(cu::Address* out, cu::IpcHandle handle, unsigned) {
  SL_FAKE_ENTER_CONTEXT(cuIpcOpenMemHandle, true);
  IpcContent content{};
  memcpy(&content, &handle, sizeof(content));
  if (content.pid == getpid()) return cu::kInvalidContext;
  const std::string path = "/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return cu::kInvalidValue;
  void* memory = mmap(nullptr, content.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int device = DeviceOfFile(fd);
  close(fd);
  if (memory == MAP_FAILED) return cu::kMapFailed;
  *out = AddressOf(memory);
  Range range{content.bytes, cu::kMemoryTypeDevice, ++TheState().last_id};
  range.is_ipc_mapping = true;
  range.device = device;
  TheState().ranges.emplace(*out, range);
  return cu::kSuccess;
}

cu::Code cuIpcCloseMemHandle(cu::Address address) {
  AwaitStreams();
  SL_FAKE_ENTER_CONTEXT(cuIpcCloseMemHandle, true);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || !found->second.is_ipc_mapping) return cu::kInvalidValue;
  munmap(At(address), found->second.bytes);
  TheState().ranges.erase(found);
  return cu::kSuccess;
}

cu::Code cuMemGetAllocationGranularity(size_t* out, const cu::AllocationProp*, int) {
  SL_FAKE_ENTER(cuMemGetAllocationGranularity);
  *out = kGranularity;
  return cu::kSuccess;
}

cu::Code cuMemCreate(cu::Memory* out, size_t bytes, const cu::AllocationProp* prop, unsigned long long) {
  SL_FAKE_ENTER_CONTEXT(cuMemCreate, true);
  if (bytes == 0 || bytes % kGranularity != 0 || prop->type != cu::kAllocationPinned) return cu::kInvalidValue;
  const char* fabric = getenv("SL_FAKE_CUDA_FABRIC");
  if ((prop->requested_handle_types & cu::kHandleFabric) != 0 && fabric == nullptr) return cu::kNotPermitted;
  if (bytes > kMostBytes) return cu::kOutOfMemory;
  *out = reinterpret_cast<cu::Memory>(new Physical{MakeDirtyFile(bytes, prop->location.id), bytes, ++TheState().last_id,
                                                   static_cast<unsigned>(prop->requested_handle_types)});
  return cu::kSuccess;
}

cu::Code cuMemRelease(cu::Memory memory) {
  SL_FAKE_ENTER_CONTEXT(cuMemRelease, true);
  Unreference(Inside(memory));
  return cu::kSuccess;
}

// At the place that is wished for, if it is free.
cu::Code cuMemAddressReserve(cu::Address* out, size_t bytes, size_t alignment, cu::Address wish, unsigned long long) {
  SL_FAKE_ENTER_CONTEXT(cuMemAddressReserve, true);
  if (bytes == 0 || bytes % kGranularity != 0) return cu::kInvalidValue;
  constexpr int kFree = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (wish != 0 && wish % alignment == 0 && mmap(At(wish), bytes, PROT_NONE, kFree, -1, 0) == At(wish)) {
    *out = wish;
    TheState().reservations.emplace(*out, bytes);
    return cu::kSuccess;
  }
  void* place = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return cu::kOutOfMemory;
  const cu::Address start = AddressOf(place);
  *out = (start + alignment - 1) / alignment * alignment;
  if (*out != start) munmap(place, *out - start);
  if (start + alignment != *out) munmap(At(*out + bytes), start + alignment - *out);
  TheState().reservations.emplace(*out, bytes);
  return cu::kSuccess;
}

cu::Code cuMemAddressFree(cu::Address address, size_t bytes) {
  SL_FAKE_ENTER_CONTEXT(cuMemAddressFree, true);
  const auto found = TheState().reservations.find(address);
  if (found == TheState().reservations.end() || found->second != bytes) return cu::kInvalidValue;
  const auto inside = TheState().ranges.lower_bound(address);
  if (inside != TheState().ranges.end() && inside->first < address + bytes) return cu::kInvalidValue;
  munmap(At(address), bytes);
  TheState().reservations.erase(found);
  return cu::kSuccess;
}

cu::Code cuMemMap(cu::Address address, size_t bytes, size_t offset, cu::Memory memory, unsigned long long) {
  SL_FAKE_ENTER_CONTEXT(cuMemMap, true);
  Physical* physical = Inside(memory);
  if (bytes == 0 || bytes % kGranularity != 0 || address % kGranularity != 0 || offset != 0) return cu::kInvalidValue;
  auto reservation = TheState().reservations.upper_bound(address);
  if (bytes > physical->bytes || reservation == TheState().reservations.begin()) return cu::kInvalidValue;
  --reservation;
  if (address + bytes > reservation->first + reservation->second) return cu::kInvalidValue;
  if (mmap(At(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, 0) == MAP_FAILED) {
    return cu::kOutOfMemory;
  }
  ++physical->references;
  Range range{bytes, cu::kMemoryTypeDevice, ++TheState().last_id};
  range.physical = physical;
  range.device = DeviceOfFile(physical->fd);
  TheState().ranges.emplace(address, range);
  return cu::kSuccess;
}

cu::Code cuMemUnmap(cu::Address address, size_t bytes) {
  AwaitStreams();
  SL_FAKE_ENTER_CONTEXT(cuMemUnmap, true);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || found->second.physical == nullptr || found->second.bytes != bytes) {
    return cu::kInvalidValue;
  }
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(At(address), bytes, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) return cu::kOutOfMemory;
  Unreference(found->second.physical);
  TheState().ranges.erase(found);
  return cu::kSuccess;
}

cu::Code cuMemSetAccess(cu::Address address, size_t bytes, const cu::AccessDesc* desc, size_t count) {
  SL_FAKE_ENTER_CONTEXT(cuMemSetAccess, true);
  if (count != 1 || desc->location.type != cu::kLocationDevice || desc->flags != cu::kAccessReadWrite) {
    return cu::kInvalidValue;
  }
  const char* peers = getenv("SL_FAKE_CUDA_PEERS");
  const auto range = RangeOf(address);
  const bool is_mapped = range != TheState().ranges.end() && range->second.physical != nullptr;
  if (peers != nullptr && *peers == '0' && is_mapped && DeviceOfFile(range->second.physical->fd) != desc->location.id) {
    return cu::kPeerAccessUnsupported;
  }
  return mprotect(At(address), bytes, PROT_READ | PROT_WRITE) == 0 ? cu::kSuccess : cu::kInvalidValue;
}

cu::Code cuMemRetainAllocationHandle(cu::Memory* out, void* address) {
  SL_FAKE_ENTER_CONTEXT(cuMemRetainAllocationHandle, true);
  const auto found = RangeOf(AddressOf(address));
  if (found == TheState().ranges.end() || found->second.physical == nullptr) return cu::kInvalidValue;
  ++found->second.physical->references;
  *out = reinterpret_cast<cu::Memory>(found->second.physical);
  return cu::kSuccess;
}

// As the driver's, the descriptor stays open over exec.
cu::Code cuMemExportToShareableHandle(void* out, cu::Memory memory, cu::HandleType type, unsigned long long) {
  SL_FAKE_ENTER_CONTEXT(cuMemExportToShareableHandle, true);
  if ((Inside(memory)->handle_types & static_cast<unsigned>(type)) == 0) return cu::kInvalidValue;
  if (type == cu::kHandleFabric) {
    const IpcContent content = {getpid(), Inside(memory)->fd, Inside(memory)->bytes};
    memset(out, 0, 64);
    memcpy(out, &content, sizeof(content));
    return cu::kSuccess;
  }
  const int fd = dup(Inside(memory)->fd);
  if (fd < 0) return cu::kOperatingSystem;
  memcpy(out, &fd, sizeof(fd));
  return cu::kSuccess;
}

cu::Code cuMemImportFromShareableHandle(cu::Memory* out, void* handle, cu::HandleType type) {
  SL_FAKE_ENTER_CONTEXT(cuMemImportFromShareableHandle, true);
  int fd = -1;
  if (type == cu::kHandleFabric) {
    IpcContent content{};
    memcpy(&content, handle, sizeof(content));
    fd = open(("/proc/" + std::to_string(content.pid) + "/fd/" + std::to_string(content.fd)).c_str(),
              O_RDWR | O_CLOEXEC);
  } else {
    fd = fcntl(static_cast<int>(reinterpret_cast<uintptr_t>(handle)), F_DUPFD_CLOEXEC, 0);
  }
  struct stat facts {};
  if (fd < 0 || fstat(fd, &facts) != 0 || fcntl(fd, F_GET_SEALS) < 0) {
    if (fd >= 0) close(fd);
    return cu::kInvalidValue;
  }
  *out = reinterpret_cast<cu::Memory>(
      new Physical{fd, static_cast<uint64_t>(facts.st_size), ++TheState().last_id, static_cast<unsigned>(type), true});
  return cu::kSuccess;
}

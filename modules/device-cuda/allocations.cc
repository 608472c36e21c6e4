// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/allocations.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "modules/device-cuda/device.h"
#include "modules/device-cuda/mappings.h"
#include "modules/device-cuda/virtual_memory.h"

namespace sl::device_cuda {
namespace {

void* At(cu::Address address) { return reinterpret_cast<void*>(address); }
cu::Address AddressOf(const void* pointer) { return reinterpret_cast<cu::Address>(pointer); }

std::string Text(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

Result<cu::Address> AllocatePlain(const sl_device_t& device, uint64_t bytes) {
  cu::Address address = 0;
  SL_TRY(SL_CUDA(device, MemAlloc, &address, bytes));
  if (Status status = device.Zero(address, bytes); !status.ok()) {
    device.calls.MemFree(address);
    return status;
  }
  return address;
}

Result<cu::Address> AllocateHost(const sl_device_t& device, uint64_t bytes) {
  void* host = nullptr;
  cu::Address address = 0;
  SL_TRY(SL_CUDA(device, MemHostAlloc, &host, bytes, cu::kHostAllocPortable | cu::kHostAllocDeviceMap));
  Status status = SL_CUDA(device, MemHostGetDevicePointer, &address, host, 0);
  if (status.ok() && address != AddressOf(host)) {
    status = Status(SL_ERR_UNSUPPORTED,
                    "device-cuda: host memory has another address on this device, which has no unified addressing");
  }
  if (!status.ok()) {
    device.calls.MemFreeHost(host);
    return status;
  }
  memset(host, 0, bytes);
  return address;
}

// A program may name its memory while another of its GPUs is current, and reach it from there. Who cannot is passed
// over: the memory serves its own device.
void LetPeersIn(const sl_device_t& device, cu::Address address, uint64_t bytes) {
  for (uint32_t ordinal = 0; ordinal < device.instance->CountDevices(); ++ordinal) {
    cu::Device peer = 0;
    int reaches = 0;
    if (ordinal == device.ordinal || device.calls.DeviceGet(&peer, static_cast<int>(ordinal)) != cu::kSuccess ||
        device.calls.DeviceCanAccessPeer(&reaches, peer, device.id) != cu::kSuccess || reaches == 0) {
      continue;
    }
    const cu::AccessDesc access = {{cu::kLocationDevice, peer}, cu::kAccessReadWrite};
    static_cast<void>(device.calls.MemSetAccess(address, bytes, &access, 1));
  }
}

Status Free(const sl_device_t& device, void* memory, uint32_t kind, uint64_t bytes) {
  switch (kind) {
    case SL_MEMORY_EXPORTABLE:
      return UnmapAnywhere(device, AddressOf(memory), bytes);
    case SL_MEMORY_HOST:
      return SL_CUDA(device, MemFreeHost, memory);
    default:
      return SL_CUDA(device, MemFree, AddressOf(memory));
  }
}

}  // namespace

cu::AllocationProp ExportableProp(const sl_device_t& device, bool with_fabric) {
  cu::AllocationProp prop{};
  prop.type = cu::kAllocationPinned;
  prop.requested_handle_types = cu::kHandlePosixFd | (with_fabric ? cu::kHandleFabric : 0);
  prop.location = {cu::kLocationDevice, device.id};
  prop.alloc_flags.gpu_direct_rdma_capable = device.Attribute(cu::kGpuDirectRdmaWithVmmSupported) != 0 ? 1 : 0;
  return prop;
}

// Fabric handles may be offered and yet refused, where IMEX does not run; then there are descriptors only.
Result<cu::Memory> Allocations::CreatePhysical(const sl_device_t& device, uint64_t bytes) {
  cu::Memory memory = 0;
  if (device.Attribute(cu::kHandleTypeFabricSupported) != 0 && !fabric_is_refused_.load(std::memory_order_relaxed)) {
    const cu::AllocationProp prop = ExportableProp(device, true);
    const cu::Code code = device.calls.MemCreate(&memory, bytes, &prop, 0);
    if (code == cu::kSuccess) return memory;
    if (code == cu::kOutOfMemory) return device.Failure(code, "cuMemCreate");
    fabric_is_refused_.store(true, std::memory_order_relaxed);
  }
  const cu::AllocationProp prop = ExportableProp(device, false);
  SL_TRY(SL_CUDA(device, MemCreate, &memory, bytes, &prop, 0));
  return memory;
}

Result<void*> Allocations::Allocate(const sl_device_t& device, uint32_t kind, uint64_t bytes) {
  if (bytes == 0) return Status(SL_ERR_INVALID, "device-cuda: an allocation of 0 bytes");
  if (kind > SL_MEMORY_HOST) {
    return Status(SL_ERR_INVALID, "device-cuda: memory kind " + std::to_string(kind) +
                                      " is unknown; use SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE or SL_MEMORY_HOST");
  }
  if (kind != SL_MEMORY_HOST && bytes > device.info.memory_bytes) {
    return Status(SL_ERR_DEVICE_MEMORY, "device-cuda: device " + std::to_string(device.ordinal) + ": " +
                                            std::to_string(bytes) + " bytes are more than its " +
                                            std::to_string(device.info.memory_bytes));
  }
  // The entry is made before the memory, so that nothing can fail once there is memory.
  std::map<void*, Allocation> entry = {{nullptr, {kind, bytes, 0}}};
  cu::Address address = 0;
  if (kind == SL_MEMORY_PLAIN) {
    SL_ASSIGN(address, AllocatePlain(device, bytes));
  } else if (kind == SL_MEMORY_HOST) {
    SL_ASSIGN(address, AllocateHost(device, bytes));
  } else {
    bytes = RoundToGranularity(device, bytes);
    SL_ASSIGN(const cu::Memory memory, CreatePhysical(device, bytes));
    const PhysicalMemory physical(device.calls, memory);
    SL_ASSIGN(address, MapAnywhere(device, bytes, memory));
    if (Status status = device.Zero(address, bytes); !status.ok()) {
      static_cast<void>(UnmapAnywhere(device, address, bytes));
      return status;
    }
    LetPeersIn(device, address, bytes);
  }
  auto node = entry.extract(entry.begin());
  node.key() = At(address);
  node.mapped().bytes = bytes;
  std::lock_guard lock(mutex_);
  node.mapped().number = ++last_number_;
  allocations_.insert(std::move(node));
  return At(address);
}

Status Allocations::Release(const sl_device_t& device, void* memory) {
  std::map<void*, Allocation>::node_type node;
  {
    std::lock_guard lock(mutex_);
    node = allocations_.extract(memory);
  }
  if (node.empty()) {
    return {SL_ERR_INVALID, "device-cuda: " + Text(memory) + " is not the start of an allocation, or was released"};
  }
  return Free(device, memory, node.mapped().kind, node.mapped().bytes);
}

// 0: it was not made here.
uint64_t Allocations::NumberOf(cu::Address base) {
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(At(base));
  return found != allocations_.end() ? found->second.number : 0;
}

PointerFacts Allocations::Describe(const sl_device_t& device, const void* pointer) {
  // Values are of 4 or of 8 bytes; into 8 zeroed ones both fit.
  enum Value { kType, kId, kStart, kBytes, kIpc, kHandles, kPool, kOrdinal, kValues };
  cu::PointerAttribute attributes[kValues] = {cu::kMemoryType,    cu::kBufferId,           cu::kRangeStart,
                                              cu::kRangeSize,     cu::kIsLegacyIpcCapable, cu::kAllowedHandleTypes,
                                              cu::kMempoolHandle, cu::kDeviceOrdinal};
  uint64_t values[kValues] = {};
  void* out[kValues];
  for (unsigned i = 0; i < kValues; ++i) out[i] = &values[i];
  const cu::Address address = AddressOf(pointer);
  PointerFacts facts;
  if (device.calls.PointerGetAttributes(kValues, attributes, out, address) != cu::kSuccess) return facts;
  if (values[kType] == 0 || values[kId] == 0) return facts;
  facts.base = values[kStart];
  facts.bytes = values[kBytes];
  facts.allocation_id = facts.generation = values[kId];
  facts.is_ipc_capable = values[kIpc] != 0;
  if (values[kType] == cu::kMemoryTypeDevice && values[kIpc] == 0 && values[kPool] == 0) {
    // Mapped by hand: the range is the reservation, of which this mapping may be a part, and what is mapped may change.
    size_t bytes = 0;
    uint64_t block = 0;
    void* out_block = &block;
    cu::PointerAttribute attribute = cu::kMemoryBlockId;
    if (device.calls.MemGetAddressRange(&facts.base, &bytes, address) != cu::kSuccess) return {};
    facts.bytes = bytes;
    facts.handle_types = static_cast<cu::HandleType>(values[kHandles]);
    // Old drivers do not know of blocks. What was made here lies there until it is released.
    const cu::Code code = device.calls.PointerGetAttributes(1, &attribute, &out_block, address);
    if (code != cu::kSuccess || block == 0) block = NumberOf(facts.base);
    if (block != 0) facts.generation = block;
    facts.is_untold = block == 0;
  }
  // Peers would be let at this device, not at that one. What is mapped by hand can be shared from anywhere.
  if (values[kType] == cu::kMemoryTypeDevice && static_cast<uint32_t>(values[kOrdinal]) != device.ordinal) {
    facts.is_elsewhere = true;
    facts.is_ipc_capable = false;
  }
  // The driver rounds allocations up, and knows addresses behind their end.
  return address - facts.base < facts.bytes ? facts : PointerFacts{};
}

Result<sl_memory_handle_t> Allocations::Export(const sl_device_t& device, void* memory, uint32_t handle_type) {
  const PointerFacts facts = Describe(device, memory);
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  handle.type = handle_type;
  handle.fd = -1;
  handle.bytes = facts.bytes;
  if (handle_type > SL_HANDLE_LOCAL) {
    return Status(SL_ERR_UNSUPPORTED,
                  "device-cuda: handle type " + std::to_string(handle_type) +
                      " is unknown; use SL_HANDLE_FD, SL_HANDLE_FABRIC, SL_HANDLE_IPC or SL_HANDLE_LOCAL");
  }
  const auto refuse = [&](const char* why) { return Status(SL_ERR_INVALID, "device-cuda: " + Text(memory) + why); };
  if (facts.allocation_id == 0 || facts.base != AddressOf(memory)) {
    return refuse(" is not the start of an allocation");
  }
  if (facts.is_elsewhere && facts.handle_types == 0) {
    return refuse(
        (" lies on another device than " + std::to_string(device.ordinal) + ", which makes no handle of it").c_str());
  }
  if (facts.is_untold) {
    return refuse(
        " was mapped by hand, and the driver does not tell when other memory is mapped there, which a newer one does: "
        "it is not exportable");
  }
  if (handle_type == SL_HANDLE_LOCAL) {
    if (!facts.is_ipc_capable && facts.handle_types == 0) return refuse(" is not exportable");
    const LocalHandle local = {facts.base, facts.bytes, device.context, facts.is_ipc_capable ? 1u : 0u};
    memcpy(handle.fabric, &local, sizeof(local));
    return handle;
  }
  if (handle_type == SL_HANDLE_IPC) {
    if (!facts.is_ipc_capable) return refuse(" has no IPC handle; only plain allocations have");
    static_assert(sizeof(cu::IpcHandle) == sizeof(handle.fabric));
    cu::IpcHandle ipc;
    SL_TRY(SL_CUDA(device, IpcGetMemHandle, &ipc, facts.base));
    memcpy(handle.fabric, &ipc, sizeof(ipc));
    return handle;
  }
  if (facts.handle_types == 0) return refuse(" is not exportable; allocate it with SL_MEMORY_EXPORTABLE");
  const cu::HandleType wanted = handle_type == SL_HANDLE_FD ? cu::kHandlePosixFd : cu::kHandleFabric;
  if ((facts.handle_types & wanted) == 0) {
    return Status(SL_ERR_UNSUPPORTED, "device-cuda: " + Text(memory) + " cannot be exported " +
                                          (handle_type == SL_HANDLE_FD ? "as a descriptor" : "to the fabric"));
  }
  cu::Memory retained = 0;
  SL_TRY(SL_CUDA(device, MemRetainAllocationHandle, &retained, memory));
  const PhysicalMemory physical(device.calls, retained);
  void* out = handle_type == SL_HANDLE_FD ? static_cast<void*>(&handle.fd) : static_cast<void*>(handle.fabric);
  SL_TRY(SL_CUDA(device, MemExportToShareableHandle, out, retained, wanted, 0));
  if (handle_type == SL_HANDLE_FD) fcntl(handle.fd, F_SETFD, FD_CLOEXEC);
  return handle;
}

size_t Allocations::Count() {
  std::lock_guard lock(mutex_);
  return allocations_.size();
}

}  // namespace sl::device_cuda

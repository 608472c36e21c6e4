// SPDX-License-Identifier: Apache-2.0
#include "modules/device-cuda/mappings.h"

#include <cstring>
#include <string>
#include <utility>

#include "modules/device-cuda/device.h"
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

// What is wrong with a handle before anybody looks at the memory.
Status CheckHandle(const sl_device_t& device, const sl_memory_handle_t& handle, bool is_placed) {
  if (handle.type > SL_HANDLE_LOCAL) {
    return {SL_ERR_UNSUPPORTED, "device-cuda: handle type " + std::to_string(handle.type) + " is unknown"};
  }
  if (handle.bytes == 0) return {SL_ERR_INVALID, "device-cuda: a handle of 0 bytes"};
  if (handle.type == SL_HANDLE_IPC || handle.type == SL_HANDLE_LOCAL) {
    if (!is_placed) return {};
    return {SL_ERR_INVALID, "device-cuda: memory of an IPC or local handle has its place already; pass no address"};
  }
  if (handle.type == SL_HANDLE_FD && handle.fd < 0) {
    return {SL_ERR_INVALID, "device-cuda: a handle without a descriptor"};
  }
  if (handle.bytes % device.info.export_granularity == 0) return {};
  return {SL_ERR_INVALID, "device-cuda: a handle of " + std::to_string(handle.bytes) +
                              " bytes, which is no multiple of " + std::to_string(device.info.export_granularity)};
}

Result<cu::Memory> ImportPhysical(const sl_device_t& device, const sl_memory_handle_t& handle) {
  cu::Memory memory = 0;
  if (handle.type == SL_HANDLE_FD) {
    void* descriptor = reinterpret_cast<void*>(static_cast<uintptr_t>(handle.fd));
    SL_TRY(SL_CUDA(device, MemImportFromShareableHandle, &memory, descriptor, cu::kHandlePosixFd));
  } else {
    unsigned char fabric[sizeof(handle.fabric)];
    memcpy(fabric, handle.fabric, sizeof(fabric));
    SL_TRY(SL_CUDA(device, MemImportFromShareableHandle, &memory, fabric, cu::kHandleFabric));
  }
  return memory;
}

Result<cu::Address> OpenIpc(const sl_device_t& device, const sl_memory_handle_t& handle) {
  cu::IpcHandle ipc;
  memcpy(&ipc, handle.fabric, sizeof(ipc));
  cu::Address address = 0;
  const cu::Code code = device.calls.IpcOpenMemHandle(&address, ipc, cu::kIpcLazyEnablePeerAccess);
  // The context is fine, or the calls before this one would have failed: the driver says so of its own handles.
  if (code == cu::kInvalidContext) {
    return Status(SL_ERR_UNSUPPORTED,
                  "device-cuda: this IPC handle was made by this process, which cannot open it; use the memory itself");
  }
  SL_TRY(device.Check(code, "cuIpcOpenMemHandle"));
  return address;
}

LocalHandle LocalOf(const sl_memory_handle_t& handle) {
  LocalHandle local;
  memcpy(&local, handle.fabric, sizeof(local));
  return local;
}

// Lets `device` at memory of cuMemAlloc of this process where it lies: the driver has no other way. What it may reach
// it goes on reaching.
Status LetIn(const sl_device_t& device, const LocalHandle& local) {
  if (local.context == device.context) return {};
  const cu::Code code = device.calls.CtxEnablePeerAccess(local.context, 0);
  if (code == cu::kPeerAccessAlreadyEnabled) return {};
  return device.Check(code, "cuCtxEnablePeerAccess");
}

// Memory of this process that is mapped by hand, at another place: it stays when its owner unmaps it.
Result<cu::Address> MapAgain(const sl_device_t& device, const LocalHandle& local) {
  cu::Memory memory = 0;
  SL_TRY(SL_CUDA(device, MemRetainAllocationHandle, &memory, At(local.address)));
  const PhysicalMemory physical(device.calls, memory);
  return MapAnywhere(device, local.bytes, memory);
}

Status ImportLocal(const sl_device_t& device, const sl_memory_handle_t& handle, sl_mapping_t* mapping) {
  const LocalHandle local = LocalOf(handle);
  mapping->bytes = local.bytes;
  if (local.is_plain != 0) {
    mapping->kind = sl_mapping_t::Kind::kLocal;
    mapping->address = local.address;
    return LetIn(device, local);
  }
  mapping->kind = sl_mapping_t::Kind::kAnywhere;
  SL_ASSIGN(mapping->address, MapAgain(device, local));
  return {};
}

Status End(const sl_device_t& device, const sl_mapping_t& mapping) {
  switch (mapping.kind) {
    case sl_mapping_t::Kind::kPlaced:
      return SL_CUDA(device, MemUnmap, mapping.address, mapping.bytes);
    case sl_mapping_t::Kind::kAnywhere:
      return UnmapAnywhere(device, mapping.address, mapping.bytes);
    case sl_mapping_t::Kind::kIpc:
      return SL_CUDA(device, IpcCloseMemHandle, mapping.address);
    case sl_mapping_t::Kind::kLocal:
      break;
  }
  return {};
}

}  // namespace

Result<void*> Mappings::Reserve(const sl_device_t& device, uint64_t bytes) {
  const uint64_t rounded = RoundToGranularity(device, bytes);
  if (rounded == 0) {
    return Status(SL_ERR_INVALID, "device-cuda: a reservation of " + std::to_string(bytes) + " bytes");
  }
  std::map<cu::Address, uint64_t> entry = {{0, rounded}};
  SL_ASSIGN(const cu::Address address, ReserveAddresses(device, rounded));
  auto node = entry.extract(entry.begin());
  node.key() = address;
  std::lock_guard lock(mutex_);
  reservations_.insert(std::move(node));
  return At(address);
}

// In a reservation of the caller's. The others have their range from the driver or from its owner, who may free it, and
// the driver give it to somebody else, while the mapping still stands here.
bool Mappings::HasMappingIn(cu::Address address, uint64_t bytes) const {
  for (const auto& [raw, mapping] : mappings_) {
    if (mapping->kind != sl_mapping_t::Kind::kPlaced) continue;
    if (mapping->address < address + bytes && address < mapping->address + mapping->bytes) return true;
  }
  return false;
}

Status Mappings::Unreserve(const sl_device_t& device, void* address, uint64_t bytes) {
  std::map<cu::Address, uint64_t>::node_type node;
  {
    std::lock_guard lock(mutex_);
    const auto found = reservations_.find(AddressOf(address));
    if (found == reservations_.end() || bytes == 0 || found->second != RoundToGranularity(device, bytes)) {
      return {SL_ERR_INVALID, "device-cuda: " + Text(address) + " is not the start of a reservation of " +
                                  std::to_string(bytes) + " bytes"};
    }
    if (HasMappingIn(found->first, found->second)) {
      return {SL_ERR_STATE,
              "device-cuda: the reservation at " + Text(address) + " still has mappings; unmap them first"};
    }
    node = reservations_.extract(found);
  }
  Status freed = SL_CUDA(device, MemAddressFree, node.key(), node.mapped());
  if (freed.ok()) return {};
  std::lock_guard lock(mutex_);
  reservations_.insert(std::move(node));
  return freed;
}

Status Mappings::CheckPlaceLocked(const sl_device_t& device, cu::Address address, uint64_t bytes) const {
  const uint64_t granularity = device.info.export_granularity;
  if (address % granularity != 0) {
    return {SL_ERR_INVALID, "device-cuda: " + Text(At(address)) + " is no place for a mapping: not a multiple of " +
                                std::to_string(granularity)};
  }
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin() || bytes > (--reservation)->second ||
      address - reservation->first > reservation->second - bytes) {
    return {SL_ERR_INVALID, "device-cuda: " + std::to_string(bytes) + " bytes at " + Text(At(address)) +
                                " do not lie inside a reservation; reserve them first"};
  }
  if (HasMappingIn(address, bytes)) {
    return {SL_ERR_INVALID,
            "device-cuda: another mapping lies in the " + std::to_string(bytes) + " bytes at " + Text(At(address))};
  }
  return {};
}

Result<sl_mapping_t*> Mappings::Import(const sl_device_t& device, const sl_memory_handle_t& handle, void* address) {
  SL_TRY(CheckHandle(device, handle, address != nullptr));
  auto owned = std::make_unique<sl_mapping_t>();
  sl_mapping_t* mapping = owned.get();
  mapping->bytes = handle.bytes;
  std::map<const sl_mapping_t*, std::unique_ptr<sl_mapping_t>> entry;
  entry.emplace(mapping, std::move(owned));
  if (handle.type == SL_HANDLE_IPC || handle.type == SL_HANDLE_LOCAL) {
    if (handle.type == SL_HANDLE_LOCAL) {
      SL_TRY(ImportLocal(device, handle, mapping));
    } else {
      mapping->kind = sl_mapping_t::Kind::kIpc;
      SL_ASSIGN(mapping->address, OpenIpc(device, handle));
    }
    std::lock_guard lock(mutex_);
    mappings_.merge(entry);
    return mapping;
  }
  SL_ASSIGN(const cu::Memory memory, ImportPhysical(device, handle));
  const PhysicalMemory physical(device.calls, memory);
  if (address == nullptr) {
    mapping->kind = sl_mapping_t::Kind::kAnywhere;
    SL_ASSIGN(mapping->address, MapAnywhere(device, handle.bytes, memory));
    std::lock_guard lock(mutex_);
    mappings_.merge(entry);
    return mapping;
  }
  mapping->address = AddressOf(address);
  {
    std::lock_guard lock(mutex_);
    SL_TRY(CheckPlaceLocked(device, mapping->address, handle.bytes));
    mappings_.merge(entry);  // the place is taken from here on
  }
  Status mapped = MapAt(device, mapping->address, handle.bytes, memory);
  if (mapped.ok()) return mapping;
  std::lock_guard lock(mutex_);
  mappings_.erase(mapping);
  return mapped;
}

// Its place stays taken until the driver has ended it.
Status Mappings::Unmap(const sl_device_t& device, sl_mapping_t* mapping) {
  {
    std::lock_guard lock(mutex_);
    const auto found = mappings_.find(mapping);
    if (found == mappings_.end() || std::exchange(found->second->is_ending, true)) {
      return {SL_ERR_INVALID, "device-cuda: " + Text(mapping) + " is no mapping of this device"};
    }
  }
  Status ended = End(device, *mapping);
  std::lock_guard lock(mutex_);
  mappings_.erase(mapping);
  return ended;
}

size_t Mappings::Count() {
  std::lock_guard lock(mutex_);
  return reservations_.size() + mappings_.size();
}

}  // namespace sl::device_cuda

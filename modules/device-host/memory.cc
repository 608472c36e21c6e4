// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sdk/system.h"

namespace sl::device_host {
namespace {

constexpr size_t kPlainAlignment = 64;
// From here on the system's zeroed pages are cheaper than writing zeros, and huge pages may help.
constexpr uint64_t kMapBytes = 1 << 20;
constexpr uint64_t kHugePageBytes = 4 << 20;
constexpr int kSegmentSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Ids of the whole process: they stay new even if the module is closed and opened again.
constinit std::atomic<uint64_t> last_id{0};
uint64_t NewId() { return last_id.fetch_add(1, std::memory_order_relaxed) + 1; }

uint64_t MachineBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string Text(const void* pointer) {
  char text[32];
  snprintf(text, sizeof(text), "%p", pointer);
  return text;
}

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

std::string Named(const char* what, uint64_t bytes) {
  return "device-host: " + std::string(what) + " of " + std::to_string(bytes) + " bytes";
}

// Memory of the device that the system does not give.
Status NoMemory(const char* what, const char* call, uint64_t bytes) {
  return {SL_ERR_DEVICE_MEMORY, SystemError(Named(what, bytes), call, errno).message() + "; or use smaller buffers"};
}

// A segment's own descriptor: nobody may change its length any more, so touching it never faults.
Result<Fd> MakeSegment(uint64_t bytes) {
  return MakeSharedMemory(Named("a shared segment", bytes), "starling", bytes, kSegmentSeals);
}

}  // namespace

Memory::Memory() : page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))), machine_bytes_(MachineBytes()) {}

Memory::~Memory() {
  for (const auto& [address, mapping] : mappings_) munmap(At(address), mapping->bytes);
  for (const auto& [address, bytes] : reservations_) munmap(At(address), bytes);
  for (const auto& [address, allocation] : allocations_) Free(address, allocation);
}

void Memory::Free(uintptr_t address, const Allocation& allocation) {
  if (allocation.is_mapped) {
    munmap(At(address), allocation.bytes);
  } else {
    free(At(address));
  }
  if (allocation.fd >= 0) close(allocation.fd);
}

Result<Memory::Allocation> Memory::AllocatePlain(uint64_t bytes, uintptr_t* out_address) {
  void* memory = nullptr;
  if (bytes < kMapBytes) {
    if (posix_memalign(&memory, kPlainAlignment, bytes) != 0) {
      return Status(SL_ERR_DEVICE_MEMORY, "device-host: allocating " + std::to_string(bytes) + " bytes: out of memory");
    }
    memset(memory, 0, bytes);
    *out_address = reinterpret_cast<uintptr_t>(memory);
    return Allocation{bytes, -1, false};
  }
  bytes = RoundToPages(bytes);
  memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return NoMemory("an allocation", "mmap", bytes);
  }
  if (bytes >= kHugePageBytes) madvise(memory, bytes, MADV_HUGEPAGE);
  *out_address = reinterpret_cast<uintptr_t>(memory);
  return Allocation{bytes, -1, true};
}

Result<Memory::Allocation> Memory::AllocateSegment(uint64_t bytes, uintptr_t* out_address) {
  bytes = RoundToPages(bytes);
  SL_ASSIGN(Fd fd, MakeSegment(bytes));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return NoMemory("mapping a shared segment", "mmap", bytes);
  // A child of fork would otherwise share, and keep alive, what other processes see.
  madvise(memory, bytes, MADV_DONTFORK);
  if (bytes >= kHugePageBytes) madvise(memory, bytes, MADV_HUGEPAGE);
  *out_address = reinterpret_cast<uintptr_t>(memory);
  return Allocation{bytes, fd.Release(), true};
}

Result<void*> Memory::Allocate(uint32_t kind, uint64_t bytes) {
  if (bytes == 0) return Status(SL_ERR_INVALID, "device-host: an allocation of 0 bytes");
  if (kind > SL_MEMORY_HOST) {
    return Status(SL_ERR_INVALID, "device-host: memory kind " + std::to_string(kind) +
                                      " is unknown; use SL_MEMORY_PLAIN, SL_MEMORY_EXPORTABLE or SL_MEMORY_HOST");
  }
  if (bytes > machine_bytes_) {
    return Status(SL_ERR_DEVICE_MEMORY, "device-host: " + std::to_string(bytes) +
                                            " bytes are more than this machine's " + std::to_string(machine_bytes_) +
                                            " bytes of memory");
  }
  uintptr_t address = 0;
  SL_ASSIGN(const Allocation allocation,
            kind == SL_MEMORY_EXPORTABLE ? AllocateSegment(bytes, &address) : AllocatePlain(bytes, &address));
  std::lock_guard lock(mutex_);
  try {
    allocations_.emplace(address, allocation);
    addresses_.Insert({address, allocation.bytes, NewId(), allocation.fd >= 0});
  } catch (...) {
    allocations_.erase(address);
    Free(address, allocation);
    throw;
  }
  return At(address);
}

Status Memory::Release(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) {
    return {SL_ERR_INVALID, "device-host: " + Text(memory) + " is not the start of an allocation, or was released"};
  }
  // Forgotten before it is unmapped: the system may give the address to somebody else at once.
  addresses_.Erase(address);
  Free(address, found->second);
  allocations_.erase(found);
  return {};
}

sl_pointer_info_t Memory::Describe(const void* pointer) const {
  sl_pointer_info_t info{};
  info.struct_size = sizeof(info);
  Range range;
  if (!addresses_.Find(reinterpret_cast<uintptr_t>(pointer), &range)) return info;
  info.exportable = range.exportable ? 1 : 0;
  info.base = At(range.base);
  info.bytes = range.bytes;
  info.allocation_id = range.id;
  info.generation = range.id;
  return info;
}

Result<sl_memory_handle_t> Memory::Export(void* memory) {
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(memory));
  if (found == allocations_.end() || found->second.fd < 0) {
    return Status(SL_ERR_INVALID, "device-host: " + Text(memory) +
                                      " is not the start of an exportable allocation; allocate it with "
                                      "SL_MEMORY_EXPORTABLE");
  }
  Fd fd = MakeFd([own = found->second.fd] { return fcntl(own, F_DUPFD_CLOEXEC, 0); });
  if (!fd.valid()) return SystemError(Named("exporting a segment", found->second.bytes), "fcntl", errno);
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  handle.type = SL_HANDLE_FD;
  handle.fd = fd.Release();
  handle.bytes = found->second.bytes;
  return handle;
}

Result<void*> Memory::Reserve(uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - page_bytes_) {
    return Status(SL_ERR_INVALID, "device-host: a reservation of " + std::to_string(bytes) + " bytes");
  }
  bytes = RoundToPages(bytes);
  void* address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return NoMemory("a reservation", "mmap", bytes);
  }
  madvise(address, bytes, MADV_DONTFORK);
  std::lock_guard lock(mutex_);
  try {
    reservations_.emplace(reinterpret_cast<uintptr_t>(address), bytes);
  } catch (...) {
    munmap(address, bytes);
    throw;
  }
  return address;
}

bool Memory::HasMappingIn(uintptr_t address, uint64_t bytes) const {
  auto next = mappings_.upper_bound(address);
  if (next != mappings_.end() && next->first - address < bytes) return true;
  if (next == mappings_.begin()) return false;
  --next;
  return address - next->first < next->second->bytes;
}

Status Memory::Unreserve(void* address, uint64_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  const auto found = reservations_.find(start);
  if (found == reservations_.end() || bytes == 0 || found->second != RoundToPages(bytes)) {
    return {SL_ERR_INVALID, "device-host: " + Text(address) + " is not the start of a reservation of " +
                                std::to_string(bytes) + " bytes"};
  }
  if (HasMappingIn(start, found->second)) {
    return {SL_ERR_STATE, "device-host: the reservation at " + Text(address) + " still has mappings; unmap them first"};
  }
  munmap(address, found->second);
  reservations_.erase(found);
  return {};
}

Status Memory::CheckPlaceLocked(uintptr_t address, uint64_t bytes) const {
  if (address % page_bytes_ != 0) {
    return {SL_ERR_INVALID, "device-host: " + Text(At(address)) + " is no place for a mapping: not a page's start"};
  }
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin() || bytes > (--reservation)->second ||
      address - reservation->first > reservation->second - bytes) {
    return {SL_ERR_INVALID, "device-host: " + std::to_string(bytes) + " bytes at " + Text(At(address)) +
                                " do not lie inside a reservation; reserve them first"};
  }
  if (HasMappingIn(address, bytes)) {
    return {SL_ERR_INVALID,
            "device-host: another mapping lies in the " + std::to_string(bytes) + " bytes at " + Text(At(address))};
  }
  return {};
}

namespace {

// Undoes the mapping of a segment; inside a reservation the place stays reserved. A failure (too many mappings) would
// leave the old mapping, which harms nobody: the place counts as free and is mapped over.
void LeavePlace(void* place, uint64_t bytes, bool is_in_reservation) {
  if (!is_in_reservation) {
    munmap(place, bytes);
    return;
  }
  static_cast<void>(mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  madvise(place, bytes, MADV_DONTFORK);
}

// Whether `handle` is what it says: every byte that will be touched exists, and stays.
Status CheckSegment(const sl_memory_handle_t& handle, uint64_t page_bytes) {
  if (handle.type != SL_HANDLE_FD) {
    return {SL_ERR_UNSUPPORTED, "device-host: handle type " + std::to_string(handle.type) + " is not for host memory"};
  }
  struct stat facts {};
  if (handle.bytes == 0 || handle.bytes % page_bytes != 0 || fstat(handle.fd, &facts) != 0 || !S_ISREG(facts.st_mode) ||
      static_cast<uint64_t>(facts.st_size) != handle.bytes) {
    return {SL_ERR_DENIED, "device-host: descriptor " + std::to_string(handle.fd) + " is not a segment of " +
                               std::to_string(handle.bytes) + " bytes, as its handle says; refused"};
  }
  const int seals = fcntl(handle.fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return {SL_ERR_DENIED, "device-host: descriptor " + std::to_string(handle.fd) +
                               " is a segment that its owner can still shrink; refused"};
  }
  return {};
}

}  // namespace

Result<sl_mapping_t*> Memory::Import(const sl_memory_handle_t& handle, void* address) {
  SL_TRY(CheckSegment(handle, page_bytes_));
  auto mapping = std::make_unique<sl_mapping_t>();
  mapping->bytes = handle.bytes;
  mapping->is_in_reservation = address != nullptr;
  std::lock_guard lock(mutex_);
  if (address != nullptr) SL_TRY(CheckPlaceLocked(reinterpret_cast<uintptr_t>(address), handle.bytes));
  void* place = mmap(address, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (address != nullptr ? MAP_FIXED : 0),
                     handle.fd, 0);
  if (place == MAP_FAILED) {
    const bool is_denied = errno == EACCES || errno == EPERM;
    const Status why = NoMemory("mapping a peer's segment", "mmap", handle.bytes);
    return is_denied ? Status(SL_ERR_DENIED, why.message()) : why;
  }
  madvise(place, handle.bytes, MADV_DONTFORK);
  mapping->address = reinterpret_cast<uintptr_t>(place);
  sl_mapping_t* result = mapping.get();
  try {
    addresses_.Insert({result->address, result->bytes, NewId(), false});
    mappings_.emplace(result->address, std::move(mapping));
  } catch (...) {
    addresses_.Erase(reinterpret_cast<uintptr_t>(place));
    LeavePlace(place, handle.bytes, address != nullptr);
    throw;
  }
  return result;
}

Status Memory::Unmap(sl_mapping_t* mapping) {
  std::lock_guard lock(mutex_);
  const auto found = mapping == nullptr ? mappings_.end() : mappings_.find(mapping->address);
  if (found == mappings_.end() || found->second.get() != mapping) {
    return {SL_ERR_INVALID, "device-host: " + Text(mapping) + " is no mapping of this device"};
  }
  addresses_.Erase(mapping->address);
  LeavePlace(At(mapping->address), mapping->bytes, mapping->is_in_reservation);
  mappings_.erase(found);
  return {};
}

size_t Memory::Holdings() {
  std::lock_guard lock(mutex_);
  return allocations_.size() + reservations_.size() + mappings_.size();
}

}  // namespace sl::device_host

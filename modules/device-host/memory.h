// SPDX-License-Identifier: Apache-2.0
//
// Memory of the host as a device: plain allocations, exportable ones (memfd segments), reservations of address space,
// and mappings of other processes' segments.
#ifndef STARLING_MODULES_DEVICE_HOST_MEMORY_H_
#define STARLING_MODULES_DEVICE_HOST_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "modules/device-host/address_map.h"
#include "sdk/status.h"
#include "sl_device.h"

// A segment mapped here by import_memory. Owned by Memory.
struct sl_mapping_t {
  uintptr_t address = 0;
  uint64_t bytes = 0;
  bool is_in_reservation = false;
};

namespace sl::device_host {

// All calls from any thread. One per opened module: pointers are the process's, whichever device object made them.
class Memory {
 public:
  Memory();
  // Unmaps and closes whatever was not released.
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Result<void*> Allocate(uint32_t kind, uint64_t bytes);
  Status Release(void* memory);
  // Never blocks. A stranger's pointer gives allocation_id 0.
  sl_pointer_info_t Describe(const void* pointer) const;
  // A new descriptor of the segment that begins at `memory`; the caller closes it.
  Result<sl_memory_handle_t> Export(void* memory);

  Result<void*> Reserve(uint64_t bytes);
  Status Unreserve(void* address, uint64_t bytes);
  // Refuses a descriptor that is not a sealed segment of the handle's length: whoever could shrink it would kill this
  // process by SIGBUS.
  Result<sl_mapping_t*> Import(const sl_memory_handle_t& handle, void* address);
  Status Unmap(sl_mapping_t* mapping);

  uint64_t PageBytes() const { return page_bytes_; }
  // Allocations, reservations and mappings that exist, for messages.
  size_t Holdings();

 private:
  struct Allocation {
    uint64_t bytes = 0;  // mapped or allocated, at least what was asked for
    int fd = -1;         // exportable only
    bool is_mapped = false;
  };

  Result<Allocation> AllocatePlain(uint64_t bytes, uintptr_t* out_address);
  Result<Allocation> AllocateSegment(uint64_t bytes, uintptr_t* out_address);
  static void Free(uintptr_t address, const Allocation& allocation);
  uint64_t RoundToPages(uint64_t bytes) const { return (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_; }
  // The checks of Import that need the lock.
  Status CheckPlaceLocked(uintptr_t address, uint64_t bytes) const;
  bool HasMappingIn(uintptr_t address, uint64_t bytes) const;

  const uint64_t page_bytes_;
  const uint64_t machine_bytes_;
  AddressMap addresses_;

  std::mutex mutex_;  // guards everything below, and writing addresses_
  std::map<uintptr_t, Allocation> allocations_;
  std::map<uintptr_t, uint64_t> reservations_;  // address to bytes
  std::map<uintptr_t, std::unique_ptr<sl_mapping_t>> mappings_;
};

}  // namespace sl::device_host

#endif  // STARLING_MODULES_DEVICE_HOST_MEMORY_H_

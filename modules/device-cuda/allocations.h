// SPDX-License-Identifier: Apache-2.0
//
// Memory made here, and what is known about any address. Every call needs the device's context to be current.
#ifndef STARLING_MODULES_DEVICE_CUDA_ALLOCATIONS_H_
#define STARLING_MODULES_DEVICE_CUDA_ALLOCATIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "modules/device-cuda/driver_types.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::device_cuda {

// What the driver knows about an address.
struct PointerFacts {
  cu::Address base = 0;
  uint64_t bytes = 0;
  uint64_t allocation_id = 0;  // 0: the driver does not know the address
  uint64_t generation = 0;
  cu::HandleType handle_types = 0;  // which handles its physical memory may be exported as
  bool is_ipc_capable = false;      // made by cuMemAlloc
  bool is_elsewhere = false;        // on another device, which alone shares what cuMemAlloc made there
  // Mapped by hand, not from here, and the driver does not tell when other memory is mapped there.
  bool is_untold = false;

  bool is_exportable() const { return !is_untold && (is_ipc_capable || handle_types != 0); }
};

// All calls from any thread. One per opened module: addresses are the process's, whichever device they lie on.
class Allocations {
 public:
  Allocations() = default;
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  Result<void*> Allocate(const sl_device_t& device, uint32_t kind, uint64_t bytes);
  Status Release(const sl_device_t& device, void* memory);
  // Of any address, whoever allocated it. No allocation; a lock only where the driver tells no blocks.
  PointerFacts Describe(const sl_device_t& device, const void* pointer);
  // A handle of the allocation that begins at `memory`, whoever made it; the caller closes the descriptor.
  Result<sl_memory_handle_t> Export(const sl_device_t& device, void* memory, uint32_t handle_type);

  // Allocations that exist, for messages.
  size_t Count();

 private:
  struct Allocation {
    uint32_t kind;
    uint64_t bytes;   // as mapped
    uint64_t number;  // of all that were made
  };

  Result<cu::Memory> CreatePhysical(const sl_device_t& device, uint64_t bytes);
  uint64_t NumberOf(cu::Address base);

  std::atomic<bool> fabric_is_refused_{false};  // the driver offers fabric handles, and refuses to make them

  std::mutex mutex_;
  std::map<void*, Allocation> allocations_;  // guarded by mutex_
  uint64_t last_number_ = 0;                 // guarded by mutex_
};

// What cuMemCreate is told for memory that other processes may map.
cu::AllocationProp ExportableProp(const sl_device_t& device, bool with_fabric);

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_ALLOCATIONS_H_

// SPDX-License-Identifier: Apache-2.0
//
// Reserved address space, and the memory of peers mapped into it or anywhere else. Every call needs the device's
// context to be current.
#ifndef STARLING_MODULES_DEVICE_CUDA_MAPPINGS_H_
#define STARLING_MODULES_DEVICE_CUDA_MAPPINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "modules/device-cuda/driver_types.h"
#include "sdk/status.h"
#include "sl_device.h"

// A peer's memory. Owned by Mappings.
struct sl_mapping_t {
  // In a reservation of the caller's, in one of its own, by the driver, where it lies in this process. That one alone
  // ends with the allocation.
  enum class Kind { kPlaced, kAnywhere, kIpc, kLocal };
  sl::device_cuda::cu::Address address = 0;
  uint64_t bytes = 0;
  Kind kind = Kind::kPlaced;
  bool is_ending = false;  // guarded as what owns it
};

namespace sl::device_cuda {

// What a handle of SL_HANDLE_LOCAL holds.
struct LocalHandle {
  cu::Address address;
  uint64_t bytes;
  cu::Context* context;  // of the device that exported it
  uint64_t is_plain;     // made by cuMemAlloc, else mapped by hand
};
static_assert(sizeof(LocalHandle) <= sizeof(sl_memory_handle_t::fabric));

// All calls from any thread. One per opened module. The driver may make mapping and unmapping wait for the kernels that
// run; no lock is held meanwhile, so nobody else waits.
class Mappings {
 public:
  Mappings() = default;
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  Result<void*> Reserve(const sl_device_t& device, uint64_t bytes);
  Status Unreserve(const sl_device_t& device, void* address, uint64_t bytes);
  // Readable and writable by `device` and no other. The driver refuses a handle that says more bytes
  // than there are.
  Result<sl_mapping_t*> Import(const sl_device_t& device, const sl_memory_handle_t& handle, void* address);
  Status Unmap(const sl_device_t& device, sl_mapping_t* mapping);

  // Reservations and mappings that exist, for messages.
  size_t Count();

 private:
  Status CheckPlaceLocked(const sl_device_t& device, cu::Address address, uint64_t bytes) const;
  bool HasMappingIn(cu::Address address, uint64_t bytes) const;

  std::mutex mutex_;                              // guards what follows
  std::map<cu::Address, uint64_t> reservations_;  // address to bytes
  std::map<const sl_mapping_t*, std::unique_ptr<sl_mapping_t>> mappings_;
};

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_MAPPINGS_H_

// SPDX-License-Identifier: Apache-2.0
//
// Memory mapped by hand: address space is reserved, physical memory is mapped into it, a device is let in. Every call
// needs the device's context to be current.
#ifndef STARLING_MODULES_DEVICE_CUDA_VIRTUAL_MEMORY_H_
#define STARLING_MODULES_DEVICE_CUDA_VIRTUAL_MEMORY_H_

#include <cstdint>

#include "modules/device-cuda/driver.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::device_cuda {

// A reference to physical memory, given back at the end of the scope; mappings keep the memory alive without it.
class PhysicalMemory {
 public:
  PhysicalMemory(const Calls& calls, cu::Memory memory) : calls_(calls), memory_(memory) {}
  ~PhysicalMemory() { calls_.MemRelease(memory_); }
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  cu::Memory get() const { return memory_; }

 private:
  const Calls& calls_;
  const cu::Memory memory_;
};

// Bytes rounded up to what can be mapped; 0 when that is more than an address space.
uint64_t RoundToGranularity(const sl_device_t& device, uint64_t bytes);

// At the granularity, which is also the alignment that mappings need.
Result<cu::Address> ReserveAddresses(const sl_device_t& device, uint64_t bytes);

// Maps the first `bytes` of `memory` at a place that is reserved, readable and writable by `device`.
Status MapAt(const sl_device_t& device, cu::Address address, uint64_t bytes, cu::Memory memory);

// The same at a place of its own, which UnmapAnywhere gives back.
Result<cu::Address> MapAnywhere(const sl_device_t& device, uint64_t bytes, cu::Memory memory);
Status UnmapAnywhere(const sl_device_t& device, cu::Address address, uint64_t bytes);

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_VIRTUAL_MEMORY_H_

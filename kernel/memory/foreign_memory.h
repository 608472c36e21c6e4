// SPDX-License-Identifier: Apache-2.0
//
// Memory of a peer, mapped here: one allocation, or several side by side, as they lie where they are owned.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sdk/fd.h"
#include "sdk/status.h"
#include "sl_device.h"

namespace sl::kernel {

// Handles of neighbouring allocations, by address, and the descriptors that they name.
struct HandleList {
  std::vector<sl_memory_handle_t> handles;
  std::vector<Fd> descriptors;
};

class ForeignMemory {
 public:
  // Borrows the descriptors.
  // returns: SL_ERR_DEVICE_MEMORY | SL_ERR_DENIED | SL_ERR_INVALID handles that do not fit together
  static Result<std::unique_ptr<ForeignMemory>> Map(const sl_device_ops_t* ops, sl_device_t* device,
                                                    std::span<const sl_memory_handle_t> handles);
  ~ForeignMemory();  // no launch uses it any more
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  uint64_t address() const { return reinterpret_cast<uint64_t>(address_); }

 private:
  ForeignMemory(const sl_device_ops_t* ops, sl_device_t* device) : ops_(ops), device_(device) {}
  Status Add(const sl_memory_handle_t& handle, void* at);

  const sl_device_ops_t* const ops_;
  sl_device_t* const device_;
  void* address_ = nullptr;
  uint64_t reserved_bytes_ = 0;  // 0: address_ is no reservation
  std::vector<sl_mapping_t*> mappings_;
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory/foreign_memory.h"

#include "kernel/events/last_error.h"

namespace sl::kernel {

Result<std::unique_ptr<ForeignMemory>> ForeignMemory::Map(const sl_device_ops_t* ops, sl_device_t* device,
                                                          std::span<const sl_memory_handle_t> handles) {
  std::unique_ptr<ForeignMemory> memory(new ForeignMemory(ops, device));
  if (handles.size() == 1) {
    SL_TRY(memory->Add(handles[0], nullptr));
    return memory;
  }
  uint64_t bytes = 0;
  for (const sl_memory_handle_t& handle : handles) {
    if (handle.bytes > UINT64_MAX - bytes) return Status(SL_ERR_INVALID, "handles of more bytes than there are");
    bytes += handle.bytes;
  }
  SL_TRY(StatusOf(ops->reserve(device, bytes, &memory->address_)));
  memory->reserved_bytes_ = bytes;
  auto* at = static_cast<uint8_t*>(memory->address_);
  for (const sl_memory_handle_t& handle : handles) {
    SL_TRY(memory->Add(handle, at));
    at += handle.bytes;
  }
  return memory;
}

Status ForeignMemory::Add(const sl_memory_handle_t& handle, void* at) {
  mappings_.reserve(mappings_.size() + 1);
  sl_mapping_t* mapping = nullptr;
  void* address = nullptr;
  SL_TRY(StatusOf(ops_->import_memory(device_, &handle, at, &mapping, &address)));
  mappings_.push_back(mapping);
  if (at == nullptr) address_ = address;
  return {};
}

ForeignMemory::~ForeignMemory() {
  for (sl_mapping_t* mapping : mappings_) ops_->unmap(device_, mapping);
  if (reserved_bytes_ != 0) ops_->unreserve(device_, address_, reserved_bytes_);
}

}  // namespace sl::kernel

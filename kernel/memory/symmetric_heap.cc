// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory/symmetric_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "kernel/events/last_error.h"
#include "sdk/fd.h"

namespace sl::kernel {

namespace {
constexpr uint64_t kSharedSegment = SL_DEVICE_CAN_EXPORT | SL_DEVICE_CAN_SHARE_SEGMENT;
constexpr uint64_t kPage = 4096;
}  // namespace

Result<uint64_t> SymmetricHeap::Stride(const sl_device_ops_t* ops, sl_device_t* device, uint64_t needed,
                                       uint64_t slice_bytes) {
  sl_device_info_t info{};
  info.struct_size = sizeof(info);
  SL_TRY(StatusOf(ops->info(device, &info)));
  if ((info.capabilities & needed) != needed) {
    return Status(SL_ERR_UNSUPPORTED, std::string("device ") + info.name + " cannot share memory between ranks");
  }
  // Slices begin with a page, whatever the device could export: the host is asked about each one's pages.
  const uint64_t grain = info.export_granularity != 0 ? std::lcm(info.export_granularity, kPage) : kPage;
  return (slice_bytes + grain - 1) / grain * grain;
}

Result<std::unique_ptr<SymmetricHeap>> SymmetricHeap::Create(const sl_device_ops_t* ops, sl_device_t* device,
                                                             uint32_t ranks, uint64_t slice_bytes) {
  SL_ASSIGN(const uint64_t stride, Stride(ops, device, kSharedSegment, slice_bytes));
  std::unique_ptr<SymmetricHeap> heap(new SymmetricHeap(ops, device, ranks, stride));
  SL_TRY(heap->Allocate(SL_MEMORY_EXPORTABLE));
  return heap;
}

Result<std::unique_ptr<SymmetricHeap>> SymmetricHeap::CreateAlone(const sl_device_ops_t* ops, sl_device_t* device,
                                                                  uint64_t slice_bytes) {
  SL_ASSIGN(const uint64_t stride, Stride(ops, device, 0, slice_bytes));
  std::unique_ptr<SymmetricHeap> heap(new SymmetricHeap(ops, device, 1, stride));
  SL_TRY(heap->Allocate(SL_MEMORY_PLAIN));
  return heap;
}

Status SymmetricHeap::Allocate(uint32_t memory_kind) {
  SL_TRY(StatusOf(ops_->allocate(device_, memory_kind, bytes(), &owned_)));
  base_ = static_cast<uint8_t*>(owned_);
  return {};
}

Result<std::unique_ptr<SymmetricHeap>> SymmetricHeap::Map(const sl_device_ops_t* ops, sl_device_t* device,
                                                          uint32_t ranks, uint64_t slice_bytes,
                                                          const sl_memory_handle_t& handle) {
  SL_ASSIGN(const uint64_t stride, Stride(ops, device, kSharedSegment, slice_bytes));
  if (handle.bytes < stride * ranks) {
    return Status(SL_ERR_MISMATCH, "the symmetric heap of this host has " + std::to_string(handle.bytes) +
                                       " bytes where " + std::to_string(stride * ranks) + " are needed");
  }
  std::unique_ptr<SymmetricHeap> heap(new SymmetricHeap(ops, device, ranks, stride));
  SL_TRY(heap->MapAt(handle, nullptr));
  return heap;
}

Result<std::unique_ptr<SymmetricHeap>> SymmetricHeap::CreateSlice(const sl_device_ops_t* ops, sl_device_t* device,
                                                                  uint32_t ranks, uint32_t rank, uint64_t slice_bytes) {
  SL_ASSIGN(const uint64_t stride, Stride(ops, device, SL_DEVICE_CAN_EXPORT, slice_bytes));
  std::unique_ptr<SymmetricHeap> heap(new SymmetricHeap(ops, device, ranks, stride));
  void* address = nullptr;
  sl_status_t status = ops->allocate(device, SL_MEMORY_EXPORTABLE, stride, &heap->owned_);
  if (status == SL_OK) status = ops->reserve(device, heap->bytes(), &address);
  if (status != SL_OK) return Status(status, LastError());
  heap->base_ = static_cast<uint8_t*>(address);
  heap->reserved_ = true;
  SL_ASSIGN(const sl_memory_handle_t handle, heap->Export());
  const Fd descriptor(handle.fd);
  SL_TRY(heap->AddSlice(rank, handle));
  return heap;
}

Status SymmetricHeap::AddSlice(uint32_t rank, const sl_memory_handle_t& handle) {
  return MapAt(handle, base_ + rank * stride_);
}

Status SymmetricHeap::MapAt(const sl_memory_handle_t& handle, void* address) {
  sl_mapping_t* mapping = nullptr;
  void* mapped = nullptr;
  mappings_.reserve(mappings_.size() + 1);  // what is mapped must be remembered
  SL_TRY(StatusOf(ops_->import_memory(device_, &handle, address, &mapping, &mapped)));
  mappings_.push_back(mapping);
  if (base_ == nullptr) base_ = static_cast<uint8_t*>(mapped);
  return {};
}

Status SymmetricHeap::Attach(const sl_device_ops_t* ops, sl_device_t* device) {
  SL_TRY(StatusOf(ops->host_attach(device, base_, bytes())));
  guest_ops_ = ops;
  guest_ = device;
  return {};
}

SymmetricHeap::~SymmetricHeap() {
  if (guest_ != nullptr) guest_ops_->host_detach(guest_, base_);
  for (sl_mapping_t* mapping : mappings_) ops_->unmap(device_, mapping);
  if (reserved_) ops_->unreserve(device_, base_, bytes());
  if (owned_ != nullptr) ops_->release(device_, owned_);
}

uint64_t SymmetricHeap::ResidentBytes(uint32_t rank) const {
  std::vector<unsigned char> pages(stride_ / kPage);
  if (mincore(base_ + rank * stride_, stride_, pages.data()) != 0) return 0;
  return kPage * static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(), [](auto page) { return page & 1; }));
}

Result<sl_memory_handle_t> SymmetricHeap::Export() const {
  sl_memory_handle_t handle{};
  handle.struct_size = sizeof(handle);
  SL_TRY(StatusOf(ops_->export_memory(device_, owned_, SL_HANDLE_FD, &handle)));
  return handle;
}

}  // namespace sl::kernel

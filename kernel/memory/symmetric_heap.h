// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap of one communicator on one host: every rank has a slice of equal size, and the address of a place
// in rank r's slice is base + r * stride + offset, for all r.
//
// On devices that can share a segment (the host) one rank owns a segment with all slices and the others map it, so that
// a rank holds one mapping whatever the number of ranks. On others (GPUs) every rank owns its slice, and maps all of
// them side by side into one reservation of address space. GPUs that do not reach each other's memory are let at a
// segment of the host's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sdk/status.h"
#include "sl_device.h"

namespace sl::kernel {

class SymmetricHeap {
 public:
  // Allocates slices for `ranks` ranks of at least `slice_bytes` each; the handle for the others is exported by Export.
  static Result<std::unique_ptr<SymmetricHeap>> Create(const sl_device_ops_t* ops, sl_device_t* device, uint32_t ranks,
                                                       uint64_t slice_bytes);
  // Maps what another rank created. Borrows the handle's descriptor.
  static Result<std::unique_ptr<SymmetricHeap>> Map(const sl_device_ops_t* ops, sl_device_t* device, uint32_t ranks,
                                                    uint64_t slice_bytes, const sl_memory_handle_t& handle);
  // Of a single rank, whose device cannot share memory.
  static Result<std::unique_ptr<SymmetricHeap>> CreateAlone(const sl_device_ops_t* ops, sl_device_t* device,
                                                            uint64_t slice_bytes);
  // Allocates the slice of `rank` alone, in a reservation for all; the others' slices are added one by one.
  static Result<std::unique_ptr<SymmetricHeap>> CreateSlice(const sl_device_ops_t* ops, sl_device_t* device,
                                                            uint32_t ranks, uint32_t rank, uint64_t slice_bytes);
  // Maps what `rank` made by CreateSlice. Borrows the handle's descriptor.
  Status AddSlice(uint32_t rank, const sl_memory_handle_t& handle);
  // Lets another device load from and store to a segment of host memory, at the same addresses, as long as it lives.
  Status Attach(const sl_device_ops_t* ops, sl_device_t* device);
  ~SymmetricHeap();
  SymmetricHeap(const SymmetricHeap&) = delete;
  SymmetricHeap& operator=(const SymmetricHeap&) = delete;

  // The handle of what this rank owns: the segment, or its slice. The caller closes the descriptor.
  Result<sl_memory_handle_t> Export() const;

  uint8_t* base() const { return base_; }
  uint64_t stride() const { return stride_; }
  // Address space of all slices; pages are used when they are first touched.
  uint64_t bytes() const { return stride_ * ranks_; }
  // Bytes of slice `rank` whose pages are in use by anybody, for the memory report; host memory only.
  uint64_t ResidentBytes(uint32_t rank) const;

 private:
  SymmetricHeap(const sl_device_ops_t* ops, sl_device_t* device, uint32_t ranks, uint64_t stride)
      : ops_(ops), device_(device), ranks_(ranks), stride_(stride) {}
  static Result<uint64_t> Stride(const sl_device_ops_t* ops, sl_device_t* device, uint64_t needed,
                                 uint64_t slice_bytes);
  Status Allocate(uint32_t memory_kind);
  Status MapAt(const sl_memory_handle_t& handle, void* address);

  const sl_device_ops_t* ops_;
  sl_device_t* device_;
  const sl_device_ops_t* guest_ops_ = nullptr;  // of the device that was attached
  sl_device_t* guest_ = nullptr;
  uint32_t ranks_;
  uint64_t stride_;
  uint8_t* base_ = nullptr;
  void* owned_ = nullptr;                // what this rank allocated
  bool reserved_ = false;                // base_ is a reservation
  std::vector<sl_mapping_t*> mappings_;  // of the segment, or of the slices
};

}  // namespace sl::kernel

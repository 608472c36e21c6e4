// SPDX-License-Identifier: Apache-2.0
//
// What lies under a buffer of a caller: the allocations that its addresses touch, each of them whole. Most buffers lie
// in one; memory that is mapped by hand may be a row of many, side by side (PyTorch's expandable segments).
#pragma once

#include <cstdint>
#include <vector>

#include "sl_device.h"

namespace sl::kernel {

class Extent {
 public:
  struct Piece {
    uint64_t base;
    uint64_t bytes;
    uint64_t allocation_id;
    uint64_t generation;

    uint64_t end() const { return base + bytes; }
    // Whether it lies there still; also when the device cannot tell.
    bool IsThere(const sl_device_ops_t* ops, sl_device_t* device) const;
    bool operator==(const Piece&) const = default;
  };
  // As many as descriptors travel in one message of a local socket (SCM_MAX_FD).
  static constexpr uint32_t kMostPieces = 253;

  // What lies there now; allocates nothing once it has held as many pieces. Empty: what lies there cannot be shared.
  // NULL, or why it is empty: a literal, "" where the address is none of the device's.
  const char* Find(const sl_device_ops_t* ops, sl_device_t* device, const void* memory, uint64_t bytes);

  const std::vector<Piece>& pieces() const { return pieces_; }
  uint64_t base() const { return pieces_.front().base; }
  uint64_t end() const { return pieces_.back().end(); }
  uint64_t bytes() const { return end() - base(); }

  bool Covers(const Extent& other) const { return base() <= other.base() && other.end() <= end(); }
  // Whether both tell the same of the addresses they have in common.
  bool AgreesWith(const Extent& other) const;
  bool Has(const Piece& piece) const;

 private:
  std::vector<Piece> pieces_;  // by address, without a gap
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The memory of one offer (reach.h), piece by piece: which pieces have changed since, and which ones are held.
//
// A program may unmap a piece of a row while operations on other pieces run or are captured. Then the offer is stale:
// what is left of it must stay for whoever was told of it. When every piece is gone, nobody relies on it any more: a
// program frees only what nothing uses.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/memory/extent.h"

namespace sl::kernel {

class OfferedMemory {
 public:
  // What is offered from now on; nothing of it is gone or held.
  void Begin(const Extent& extent);
  const Extent& extent() const { return extent_; }

  // Learns which pieces have changed: from what somebody has found under other addresses, or from the device, a few
  // pieces at each call.
  void Compare(const Extent& found);
  void Look(const sl_device_ops_t* ops, sl_device_t* device);
  bool is_stale() const { return gone_ != 0; }
  bool is_gone() const { return gone_ == extent_.pieces().size(); }

  // Holds the pieces under these addresses, until the next Begin().
  void Hold(const void* memory, uint64_t bytes);
  // Whether a held piece is left.
  bool IsHeld() const;

 private:
  struct Mark {
    bool is_gone = false;
    bool is_held = false;
  };

  void SetGone(size_t piece);

  Extent extent_;
  std::vector<Mark> marks_;  // of each piece
  size_t gone_ = 0;          // pieces
  size_t next_look_ = 0;     // the piece to look at next
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// What an all-gather on the control tree carries: for each of some ranks its number and its bytes.
#pragma once

#include "kernel/control/frame.h"

namespace sl::kernel {

// Appends what `rank` contributes.
void PutContribution(Writer* out, uint32_t rank, std::span<const uint8_t> bytes);

// Those of all ranks. In one piece, as they came: a process may hold as many copies as it has ranks, for a moment, and
// many small pieces would leave the heap in holes.
class Contributions {
 public:
  // SL_ERR_LINK_CORRUPT unless each of `size` ranks is there once and nothing else is.
  static Result<Contributions> Read(Bytes all, uint32_t size);

  size_t size() const { return places_.size(); }
  // Lives as long as this object.
  std::span<const uint8_t> operator[](size_t rank) const {
    return std::span(all_).subspan(places_[rank].offset, places_[rank].bytes);
  }

 private:
  struct Place {
    uint32_t offset;
    uint32_t bytes;
  };

  Bytes all_;
  std::vector<Place> places_;  // by rank
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/offered_memory.h"

#include <algorithm>

namespace sl::kernel {
namespace {

// Pieces that are looked at each time: asking the driver for one takes about a microsecond.
constexpr size_t kLook = 8;

}  // namespace

void OfferedMemory::Begin(const Extent& extent) {
  extent_ = extent;
  marks_.assign(extent_.pieces().size(), Mark{});
  gone_ = next_look_ = 0;
}

void OfferedMemory::SetGone(size_t piece) {
  if (!marks_[piece].is_gone) ++gone_;
  marks_[piece].is_gone = true;
}

void OfferedMemory::Compare(const Extent& found) {
  if (extent_.AgreesWith(found)) return;
  for (size_t i = 0; i < marks_.size(); ++i) {
    const Extent::Piece& piece = extent_.pieces()[i];
    if (piece.base < found.end() && found.base() < piece.end() && !found.Has(piece)) SetGone(i);
  }
}

void OfferedMemory::Look(const sl_device_ops_t* ops, sl_device_t* device) {
  for (size_t count = std::min(kLook, marks_.size()); count != 0; --count) {
    if (!extent_.pieces()[next_look_].IsThere(ops, device)) SetGone(next_look_);
    next_look_ = (next_look_ + 1) % marks_.size();
  }
}

void OfferedMemory::Hold(const void* memory, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  for (size_t i = 0; i < marks_.size(); ++i) {
    const Extent::Piece& piece = extent_.pieces()[i];
    if (piece.base < begin + bytes && begin < piece.end()) marks_[i].is_held = true;
  }
}

bool OfferedMemory::IsHeld() const {
  return std::any_of(marks_.begin(), marks_.end(), [](const Mark& mark) { return mark.is_held && !mark.is_gone; });
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory/extent.h"

#include <algorithm>

namespace sl::kernel {
namespace {

sl_status_t Ask(const sl_device_ops_t* ops, sl_device_t* device, uint64_t address, sl_pointer_info_t* out_info) {
  *out_info = {};
  out_info->struct_size = sizeof(*out_info);
  return ops->pointer_info(device, reinterpret_cast<const void*>(address), out_info);
}

Extent::Piece PieceOf(const sl_pointer_info_t& info) {
  return {reinterpret_cast<uint64_t>(info.base), info.bytes, info.allocation_id, info.generation};
}

}  // namespace

const char* Extent::Find(const sl_device_ops_t* ops, sl_device_t* device, const void* memory, uint64_t bytes) {
  pieces_.clear();
  const auto refuse = [this](const char* why) {
    pieces_.clear();
    return why;
  };
  const auto begin = reinterpret_cast<uint64_t>(memory);
  if (bytes > UINT64_MAX - begin) return "";
  uint64_t next = begin;
  do {
    sl_pointer_info_t info;
    if (Ask(ops, device, next, &info) != SL_OK || info.allocation_id == 0) {
      return refuse(pieces_.empty() ? "" : "it reaches beyond its memory");
    }
    if (info.exportable == 0) {
      return refuse(
          "it lies on another device, its allocator makes memory that cannot be shared, or it was mapped by hand and "
          "the "
          "driver is too old to tell when other memory is mapped there");
    }
    if (pieces_.size() == kMostPieces) return refuse("it spans more than 253 allocations");
    pieces_.push_back(PieceOf(info));
    if (pieces_.size() > 1 && pieces_.back().base != next) return refuse("its memory was mapped anew meanwhile");
    next = pieces_.back().end();
  } while (next < begin + bytes);
  return nullptr;
}

bool Extent::AgreesWith(const Extent& other) const {
  if (end() <= other.base() || other.end() <= base()) return true;
  const auto ends_before = [](const Piece& piece, uint64_t address) { return piece.end() <= address; };
  auto mine = std::lower_bound(pieces_.begin(), pieces_.end(), other.base(), ends_before);
  auto theirs = std::lower_bound(other.pieces_.begin(), other.pieces_.end(), base(), ends_before);
  for (; mine != pieces_.end() && theirs != other.pieces_.end(); ++mine, ++theirs) {
    if (*mine != *theirs) return false;
  }
  return true;
}

bool Extent::Has(const Piece& piece) const {
  const auto lies_before = [](const Piece& mine, uint64_t base) { return mine.base < base; };
  const auto found = std::lower_bound(pieces_.begin(), pieces_.end(), piece.base, lies_before);
  return found != pieces_.end() && *found == piece;
}

bool Extent::Piece::IsThere(const sl_device_ops_t* ops, sl_device_t* device) const {
  sl_pointer_info_t info;
  return Ask(ops, device, base, &info) != SL_OK || PieceOf(info) == *this;
}

}  // namespace sl::kernel

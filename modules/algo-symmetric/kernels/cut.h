// SPDX-License-Identifier: Apache-2.0
//
// Where ranges of callers' bytes, which begin anywhere, are cut: into pieces, and these into vectors. A GPU moves lines
// of 128 bytes, of a peer's memory, too, where what begins in the middle of one costs as much again at every 512 bytes
// of a warp. So all pieces begin at lines of the memory over there, but the first, and vectors are stored aligned,
// whatever lies where they are loaded.
#pragma once

#include "sdk/device/vector.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kVectorBytes = sizeof(dev::Vec16);
constexpr uint32_t kWireLineBytes = 128;  // what a GPU moves at once

SL_HD uint32_t Low(const uint8_t* address) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address)); }

// How far what is stored from `to` on, loaded from `from` on, has vectors of another alignment there.
SL_HD uint32_t ShiftOf(const uint8_t* from, const uint8_t* to) { return (Low(from) - Low(to)) % kVectorBytes; }

// Bytes after which vectors are aligned at `to`, and at a line of `there`: what is farther away of both, or `to`.
SL_HD uint32_t HeadOf(const uint8_t* there, const uint8_t* to) {
  return (ShiftOf(there, to) - Low(there)) % kWireLineBytes;
}

// Bytes after which vectors are aligned at `to`.
SL_HD uint32_t ToVector(const uint8_t* to) { return -Low(to) % kVectorBytes; }

// The pieces of a range. There are as many as without a head, which the first one has, too; the last may be empty.
struct Pieces {
  uint64_t bytes;        // of the range
  uint32_t piece_bytes;  // 0: there is one
  uint32_t head;         // where the first one would begin at a line

  SL_HD uint64_t Begin(uint64_t i) const { return i == 0 ? 0 : Least(head + i * piece_bytes); }
  SL_HD uint64_t End(uint64_t i) const { return piece_bytes == 0 ? bytes : Least(head + (i + 1) * piece_bytes); }

 private:
  SL_HD uint64_t Least(uint64_t at) const { return at < bytes ? at : bytes; }
};

// The vectors of a piece, and the bytes around them, which go one by one.
struct Vectors {
  uint64_t first;  // byte at which they begin
  uint32_t count;
  bool shifted;  // each is put together from two that are loaded, aligned: all these lie within the range

  // Of so many bytes of which `head` come before the first vector; `before` and `after` lie in the range around them.
  SL_HD static Vectors Of(uint64_t bytes, uint64_t head, bool shifted, uint64_t before, uint64_t after) {
    uint64_t first = head;
    if (shifted && before < kVectorBytes) first += kVectorBytes;
    uint64_t count = first < bytes ? (bytes - first) / kVectorBytes : 0;
    if (shifted && after < kVectorBytes && count != 0) --count;
    if (count == 0) first = bytes;
    return {first, static_cast<uint32_t>(count), shifted};
  }
  SL_HD uint64_t bytes() const { return uint64_t{count} * kVectorBytes; }
};

}  // namespace sl::algo_symmetric::kernels

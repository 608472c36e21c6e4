// SPDX-License-Identifier: Apache-2.0
//
// Moving ranges of bytes by all threads of a block, 16 bytes a load, with many loads in flight. Where an address of the
// user is not aligned to 16 bytes, vectors are put together from parts.
#pragma once

#include "modules/algo-symmetric/kernels/cut.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

// How a vector is read. Whole: 16 aligned bytes, kUnroll of them in flight; Part: the first `valid` bytes at any
// address.
struct FromUser {
  static constexpr uint32_t kUnroll = 8;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::LoadOwn<16>(from); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t valid) const { return dev::LoadAny<16>(from, valid); }
};
template <typename F>
struct FromUserScaled {
  static constexpr uint32_t kUnroll = 2;
  uint64_t scalar;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::Scaled<F>(dev::LoadOwn<16>(from), scalar); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t valid) const {
    return dev::Scaled<F>(dev::LoadAny<16>(from, valid), scalar);
  }
};
// Slots are aligned and hold whole vectors.
struct FromPeer {
  static constexpr uint32_t kUnroll = 8;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::LoadPeer(from); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t /*valid*/) const { return dev::LoadPeer(from); }
};

struct Range {
  const uint8_t* from;
  uint8_t* to;
  uint32_t bytes;
};

// The whole vectors of one range.
template <typename Load>
SL_HD void MoveWhole(const dev::Block& block, const Load& load, const Range& range) {
  const uint32_t total = range.bytes / kVectorBytes;
  const uint32_t threads = block.threads();
  for (uint32_t first = block.thread(); first < total; first += Load::kUnroll * threads) {
    dev::Vec16 v[Load::kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < Load::kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i < total) v[j] = load.Whole(range.from + i * kVectorBytes);
    }
    SL_UNROLL
    for (uint32_t j = 0; j < Load::kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i < total) dev::Store(range.to + i * kVectorBytes, v[j]);
    }
  }
}

// The whole vectors of several short ranges, all in flight together.
template <typename Load, typename RangeAt>
SL_HD void MoveWholeTogether(const dev::Block& block, uint32_t count, uint32_t longest, const Load& load,
                             const RangeAt& range) {
  constexpr uint32_t kUnroll = Load::kUnroll;
  const uint32_t whole = longest / kVectorBytes;
  const uint32_t total = count * whole;
  for (uint32_t first = block.thread(); first < total; first += kUnroll * block.threads()) {
    dev::Vec16 v[kUnroll];
    uint8_t* to[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * block.threads();
      to[j] = nullptr;
      if (i >= total) continue;
      const Range one = range(i / whole);
      const uint32_t at = i % whole * kVectorBytes;
      if (at + kVectorBytes > one.bytes) continue;
      v[j] = load.Whole(one.from + at);
      to[j] = one.to + at;
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      if (to[j] != nullptr) dev::Store(to[j], v[j]);
    }
  }
}

// Moves range(0) … range(count - 1), of at most `longest` bytes each. `aligned`: all their user's addresses are.
template <typename Load, typename RangeAt>
SL_HD void MoveRanges(const dev::Block& block, uint32_t count, uint32_t longest, bool aligned, const Load& load,
                      const RangeAt& range) {
  // Where a range keeps enough loads of every thread in flight, finding one's place in it costs next to nothing.
  const bool is_long = count == 1 || longest >= 4 * kVectorBytes * block.threads();
  if (aligned && is_long) {
    for (uint32_t i = 0; i < count; ++i) MoveWhole(block, load, range(i));
  } else if (aligned) {
    MoveWholeTogether(block, count, longest, load, range);
  }
  // What remains: of aligned ranges the end, of others all.
  const uint32_t parts = aligned ? 1 : (longest + kVectorBytes - 1) / kVectorBytes;
  for (uint32_t i = block.thread(); i < count * parts; i += block.threads()) {
    const Range one = range(i / parts);
    const uint32_t at = (aligned ? one.bytes / kVectorBytes : i % parts) * kVectorBytes;
    if (at >= one.bytes) continue;
    dev::StoreAny(one.to + at, load.Part(one.from + at, one.bytes - at), one.bytes - at);
  }
}

}  // namespace sl::algo_symmetric::kernels

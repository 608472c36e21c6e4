// SPDX-License-Identifier: Apache-2.0
//
// Moving a range of bytes to one place or to several, by all threads of a block, at any alignment: each vector is
// loaded once and stored to all. Both ends may be a peer's memory; nobody else writes what is loaded.
#pragma once

#include "modules/algo-symmetric/kernels/cut.h"
#include "sdk/device/block.h"
#include "sdk/device/draw.h"
#include "sdk/device/element.h"
#include "sdk/device/shifted.h"

namespace sl::algo_symmetric::kernels {

// How much of so many bytes is drawn at a time: what every worker does eight times or so, in pieces that are worth a
// draw, and not so long that who draws the last one is waited for.
SL_HD uint32_t DrawnBytes(uint64_t bytes, uint32_t workers, uint64_t most = 32 << 10) {
  constexpr uint64_t kLeast = 4 << 10;  // 8 vectors of each thread of a warp
  const uint64_t eighth = bytes / (8 * workers) / kLeast * kLeast;
  return static_cast<uint32_t>(eighth < kLeast ? kLeast : eighth > most ? most : eighth);
}

// Places for what is moved: one, or several, some of which may be NULL.
struct OnePlace {
  uint8_t* place;
  SL_HD uint32_t count() const { return 1; }
  SL_HD uint8_t* at(uint32_t /*i*/) const { return place; }
  SL_HD OnePlace Some(uint32_t /*first*/, uint32_t /*number*/) const { return *this; }
};
struct ManyPlaces {
  uint8_t* const* places;
  uint32_t number;
  SL_HD uint32_t count() const { return number; }
  SL_HD uint8_t* at(uint32_t i) const { return places[i]; }
  SL_HD ManyPlaces Some(uint32_t first, uint32_t some) const { return {places + first, some}; }
};

// A part of what is moved.
struct SpreadPart {
  uint64_t begin;
  uint64_t bytes;
  Vectors vectors;
};

// One source, and where it goes.
template <typename To>
struct Spread {
  const uint8_t* from;
  To to;
  bool pulled;  // the source is a peer's memory; else the places may be

  // NULL: there is none.
  SL_HD const uint8_t* FirstPlace() const {
    uint32_t t = 0;
    while (t < to.count() && to.at(t) == nullptr) ++t;
    return t < to.count() ? to.at(t) : nullptr;
  }
  // Where a range of it is cut into pieces; by the first place, should they be aligned differently.
  SL_HD Pieces Cut(uint64_t bytes, uint32_t piece_bytes) const {
    const uint8_t* place = FirstPlace();
    return {bytes, piece_bytes, place != nullptr ? Head(place, 0) : 0};
  }
  // From byte `begin` to byte `end` of a range, to places that are aligned as this one.
  SL_HD SpreadPart Part(const uint8_t* place, uint64_t range_bytes, uint64_t begin, uint64_t end, bool shifted) const {
    return {begin, end - begin, Vectors::Of(end - begin, Head(place, begin), shifted, begin, range_bytes - end)};
  }

 private:
  // Before the first vector that begins at `begin` or behind.
  SL_HD uint32_t Head(const uint8_t* place, uint64_t begin) const {
    return HeadOf((pulled ? from : place) + begin, place + begin);
  }
};

// Its vectors. Shifted: each is put together from two of a source that is aligned otherwise than the places.
template <bool kShifted, typename To>
SL_HD void SpreadVectors(const dev::Block& block, const Spread<To>& spread, const SpreadPart& part, uint32_t shift) {
  constexpr uint32_t kUnroll = 8;
  const uint64_t begin = part.begin + part.vectors.first;
  const uint32_t total = part.vectors.count;
  const uint32_t threads = block.threads();
  SL_ROLLED
  for (uint32_t first = block.thread(); first < total; first += kUnroll * threads) {
    dev::Vec16 v[kUnroll];
    dev::Vec16 behind[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i >= total) continue;
      const uint8_t* from = spread.from + begin + uint64_t{i} * kVectorBytes - shift;
      v[j] = dev::LoadPeer(from);
      if constexpr (kShifted) behind[j] = dev::LoadPeer(from + kVectorBytes);
    }
    SL_UNROLL
    for (uint32_t j = 0; kShifted && j < kUnroll; ++j) {
      if (first + j * threads < total) v[j] = dev::Between(v[j], behind[j], shift);
    }
    for (uint32_t t = 0; t < spread.to.count(); ++t) {
      if (spread.to.at(t) == nullptr) continue;
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) {
        const uint32_t i = first + j * threads;
        if (i < total) dev::Store(spread.to.at(t) + begin + uint64_t{i} * kVectorBytes, v[j]);
      }
    }
  }
}

// What is before and behind them.
template <typename To>
SL_HD void SpreadEdges(const dev::Block& block, const Spread<To>& spread, const SpreadPart& part) {
  const uint64_t total = part.bytes - part.vectors.bytes();
  if (total == 0) return;
  SL_ROLLED
  for (uint64_t i = block.thread(); i < total; i += block.threads()) {
    const uint64_t at = part.begin + (i < part.vectors.first ? i : i + part.vectors.bytes());
    const auto byte = dev::LoadElement<uint8_t>(spread.from + at);
    for (uint32_t t = 0; t < spread.to.count(); ++t) {
      if (spread.to.at(t) != nullptr) dev::StoreElement(spread.to.at(t) + at, byte);
    }
  }
}

// To places that are aligned alike, of which `place` is one.
template <typename To>
SL_HD void SpreadAlike(const dev::Block& block, const Spread<To>& spread, const uint8_t* place, uint64_t range_bytes,
                       uint64_t begin, uint64_t end) {
  const uint32_t shift = ShiftOf(spread.from, place);
  const SpreadPart part = spread.Part(place, range_bytes, begin, end, shift != 0);
  if (shift == 0) {
    SpreadVectors<false>(block, spread, part, 0);
  } else {
    SpreadVectors<true>(block, spread, part, shift);
  }
  SpreadEdges(block, spread, part);
}

// From byte `begin` to byte `end` of a range.
template <typename To>
SL_HD void SpreadBytes(const dev::Block& block, const Spread<To>& spread, uint64_t range_bytes, uint64_t begin,
                       uint64_t end) {
  // Once, unless places differ in how they are aligned.
  SL_ROLLED
  for (uint32_t first = 0, next = 0; first < spread.to.count(); first = next) {
    const uint8_t* place = nullptr;
    for (; next < spread.to.count(); ++next) {
      const uint8_t* one = spread.to.at(next);
      if (one != nullptr && place != nullptr && ShiftOf(one, place) != 0) break;
      if (place == nullptr) place = one;
    }
    if (place == nullptr) return;
    SpreadAlike(block, Spread<To>{spread.from, spread.to.Some(first, next - first), spread.pulled}, place, range_bytes,
                begin, end);
  }
}

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Moving a range of bytes to one place or to several, by all threads of a block, at any alignment: each element is
// loaded once and stored to all. Both ends may be a peer's memory; nobody else writes what is loaded.
#pragma once

#include "modules/algo-symmetric/kernels/move.h"

namespace sl::algo_symmetric::kernels {

// How much of so many bytes is drawn at a time: what every worker does eight times or so, in pieces that are worth a
// draw, and not so long that who draws the last one is waited for.
SL_HD uint32_t DrawnBytes(uint64_t bytes, uint32_t workers, uint64_t most = 32 << 10) {
  constexpr uint64_t kLeast = 4 << 10;  // 8 vectors of each thread of a warp
  const uint64_t eighth = bytes / (8 * workers) / kLeast * kLeast;
  return static_cast<uint32_t>(eighth < kLeast ? kLeast : eighth > most ? most : eighth);
}

// One source, and `takers` places for it, some of them NULL.
struct Spread {
  const uint8_t* from;
  uint8_t* const* to;
  uint32_t takers;
  uint64_t begin;  // in all of them
};

// The whole vectors of it.
SL_HD void SpreadWhole(const dev::Block& block, const Spread& spread, uint64_t bytes) {
  constexpr uint32_t kUnroll = 8;
  const auto total = static_cast<uint32_t>(bytes / kVectorBytes);
  const uint32_t threads = block.threads();
  for (uint32_t first = block.thread(); first < total; first += kUnroll * threads) {
    dev::Vec16 v[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i < total) v[j] = dev::LoadPeer(spread.from + spread.begin + uint64_t{i} * kVectorBytes);
    }
    for (uint32_t t = 0; t < spread.takers; ++t) {
      if (spread.to[t] == nullptr) continue;
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) {
        const uint32_t i = first + j * threads;
        if (i < total) dev::Store(spread.to[t] + spread.begin + uint64_t{i} * kVectorBytes, v[j]);
      }
    }
  }
}

// Lanes of fewer bytes from byte `begin` on, for what is not aligned to vectors.
template <typename Lane>
SL_HD void SpreadLanes(const dev::Block& block, const Spread& spread, uint64_t begin, uint64_t bytes) {
  constexpr uint32_t kUnroll = 8;
  const uint64_t step = uint64_t{block.threads()} * sizeof(Lane);
  for (uint64_t first = begin + block.thread() * sizeof(Lane); first + sizeof(Lane) <= bytes; first += kUnroll * step) {
    Lane v[kUnroll] = {};
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint64_t at = first + j * step;
      if (at + sizeof(Lane) <= bytes) v[j] = dev::LoadElement<Lane>(spread.from + spread.begin + at);
    }
    for (uint32_t t = 0; t < spread.takers; ++t) {
      if (spread.to[t] == nullptr) continue;
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) {
        const uint64_t at = first + j * step;
        if (at + sizeof(Lane) <= bytes) dev::StoreElement(spread.to[t] + spread.begin + at, v[j]);
      }
    }
  }
}

// `misaligned`: the low bits that any of the addresses has.
SL_HD void SpreadBytes(const dev::Block& block, const Spread& spread, uint64_t bytes, uint32_t misaligned) {
  uint32_t lane = kVectorBytes;
  while ((misaligned & (lane - 1)) != 0) lane /= 2;
  if (lane == 16) {
    SpreadWhole(block, spread, bytes);
  } else if (lane == 8) {
    SpreadLanes<uint64_t>(block, spread, 0, bytes);
  } else if (lane == 4) {
    SpreadLanes<uint32_t>(block, spread, 0, bytes);
  } else if (lane == 2) {
    SpreadLanes<uint16_t>(block, spread, 0, bytes);
  }
  SpreadLanes<uint8_t>(block, spread, lane == 1 ? 0 : bytes / lane * lane, bytes);
}

}  // namespace sl::algo_symmetric::kernels

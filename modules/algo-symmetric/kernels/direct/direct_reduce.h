// SPDX-License-Identifier: Apache-2.0
//
// Reducing the ranges of a direct operation, in this rank's memory and in its peers' alike.
#pragma once

#include "modules/algo-symmetric/kernels/direct/direct_table.h"
#include "modules/algo-symmetric/kernels/reduce.h"
#include "sdk/device/draw.h"

namespace sl::algo_symmetric::kernels {

// What is reduced of the ranges in a table.
struct DirectOperands {
  const DirectTable& table;
  uint64_t range_bytes;
  uint32_t size;
  uint32_t takers;
  uint32_t average_over;
  uint32_t peer;       // one of them
  uint64_t begin = 0;  // in the table's ranges
  uint64_t bytes = 0;
  bool shifted = false;     // see Vectors
  bool are_alike = true;    // all destinations are aligned alike
  bool by_sources = false;  // vectors are aligned at the sources, all alike, and stored in parts

  // Finds out how it goes where not all are alike. What is stored at home is stored in parts sooner than all is loaded
  // from the peers twice.
  SL_HD void Look(bool at_home) {
    for (uint32_t t = 1; t < takers; ++t) are_alike = are_alike && ShiftOf(table.to[t], table.to[0]) == 0;
    shifted = IsShifted(*this);
    by_sources = shifted && at_home;
    for (uint32_t r = 0; r < size; ++r) by_sources = by_sources && ShiftOf(Of(r), Of(peer)) == 0;
    if (by_sources) shifted = false;
  }
  // Before the first vector.
  SL_HD uint32_t Head() const { return HeadOf(Of(peer), by_sources ? Of(peer) : To()); }
  SL_HD const uint8_t* Of(uint32_t r) const { return table.from[r] + begin; }
  SL_HD const uint8_t* To() const { return table.to[0] + begin; }
  SL_HD Vectors Cut() const {
    return Vectors::Of(bytes, are_alike ? Head() : bytes, shifted, begin, range_bytes - begin - bytes);
  }
  SL_HD void Keep(uint64_t at, const dev::Vec16& result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::Store(table.to[t] + begin + at, result);
  }
  SL_HD bool KeepsParts() const { return by_sources; }
  SL_HD void KeepUnlike(uint64_t at, const dev::Vec16& result) const {
    if (by_sources) return dev::StoreParts(table.to[0] + begin + at, result);
    Keep(at, result);
  }
  template <typename Lane>
  SL_HD void KeepElement(uint64_t at, Lane result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::StoreElement(table.to[t] + begin + at, result);
  }
};

template <typename F>
SL_APART SL_HD void ReduceDirect(const dev::Draws draws, const dev::Block worker, DirectOperands in,
                                 const Pieces pieces, sl_reduction_t reduction) {
  draws.Each([&](uint32_t piece) {
    in.begin = pieces.Begin(piece);
    in.bytes = pieces.End(piece) - in.begin;
    Reduce<F>(worker, in, reduction);
  });
}

}  // namespace sl::algo_symmetric::kernels

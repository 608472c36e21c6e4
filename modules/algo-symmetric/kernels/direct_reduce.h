// SPDX-License-Identifier: Apache-2.0
//
// Where a block of a direct operation reads and writes, and the reduction of what lies there, this rank's memory and
// its peers' alike.
#pragma once

#include "modules/algo-symmetric/kernels/meeting.h"
#include "modules/algo-symmetric/kernels/move.h"
#include "sdk/device/draw.h"

namespace sl::algo_symmetric::kernels {

// What a block keeps in shared memory.
struct DirectTable {
  Places places;
  const uint8_t* from[kReachRanks];  // reduce: in rank order; spread: the first; pairs: beginning behind the rank
  uint8_t* to[kReachRanks];          // beginning behind the rank; NULL: not there

  // The low bits that any of some addresses has.
  SL_HD uint32_t Misaligned(uint32_t first_from, uint32_t froms, uint32_t first_to, uint32_t tos) const {
    uintptr_t bits = 0;
    for (uint32_t i = 0; i < froms; ++i) bits |= reinterpret_cast<uintptr_t>(from[first_from + i]);
    for (uint32_t i = 0; i < tos; ++i) bits |= reinterpret_cast<uintptr_t>(to[first_to + i]);
    return static_cast<uint32_t>(bits % kVectorBytes);
  }
};

// What is reduced of the ranges in a table.
struct DirectOperands {
  const DirectTable& table;
  uint64_t begin;  // in the table's ranges
  uint64_t bytes;
  uint32_t size;
  uint32_t takers;
  uint32_t average_over;
  bool all_aligned;

  SL_HD bool aligned() const { return all_aligned; }
  SL_HD const uint8_t* From(uint32_t r, uint32_t i) const { return table.from[r] + begin + uint64_t{i} * kVectorBytes; }
  SL_HD void Keep(uint32_t i, const dev::Vec16& result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::Store(table.to[t] + begin + uint64_t{i} * kVectorBytes, result);
  }
  template <typename Lane>
  SL_HD Lane LoadElement(uint32_t r, uint64_t at) const {
    return dev::LoadElement<Lane>(table.from[r] + begin + at);
  }
  template <typename Lane>
  SL_HD void KeepElement(uint64_t at, Lane result) const {
    SL_ROLLED
    for (uint32_t t = 0; t < takers; ++t) dev::StoreElement(table.to[t] + begin + at, result);
  }
};

// Pieces of the same length, but the last; 0: there is one.
template <typename F>
SL_APART SL_HD void ReduceDirect(const dev::Draws draws, const dev::Block worker, DirectOperands in,
                                 uint32_t piece_bytes, sl_reduction_t reduction) {
  const uint64_t bytes = in.bytes;
  draws.Each([&](uint32_t piece) {
    in.begin = uint64_t{piece} * piece_bytes;
    const uint64_t left = bytes - in.begin;
    in.bytes = piece_bytes != 0 && left > piece_bytes ? piece_bytes : left;
    Reduce<F>(worker, in, reduction);
  });
}

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Where a block of a direct operation reads and writes, this rank's memory and its peers' alike.
#pragma once

#include "modules/algo-symmetric/kernels/cut.h"
#include "modules/algo-symmetric/kernels/direct/meeting.h"

namespace sl::algo_symmetric::kernels {

// What a block keeps in shared memory.
struct DirectTable {
  Places places;
  const uint8_t* from[kReachRanks];  // reduce: in rank order; spread: the first; pairs: beginning behind the rank
  uint8_t* to[kReachRanks];          // beginning behind the rank; NULL: not there

  SL_HD bool IsAligned(uint32_t froms, uint32_t tos) const {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < froms; ++i) bits |= Low(from[i]);
    for (uint32_t i = 0; i < tos; ++i) bits |= Low(to[i]);
    return bits % kVectorBytes == 0;
  }
};

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Of a reduction whose contributions are pushed (push_reduce.h): what of it is kept where, where it is cut, and what is
// reduced of a unit.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/reduce.h"

namespace sl::algo_symmetric::kernels {

SL_HD uint32_t ReducersOf(uint32_t ranks) { return kThreads / 32 - 1 - PushersOf(ranks); }  // one warp tells

SL_HD UnitCounts* CountsOf(const Team& team) {
  return reinterpret_cast<UnitCounts*>(team.At(team.rank, team.layout.units));
}
// In the slice, since racecheck cannot know that threads order by words what they do in shared memory.
SL_HD Told* ToldOf(const Team& team, const dev::Block& block) {
  return reinterpret_cast<Told*>(team.At(team.rank, team.layout.told)) + block.index;
}

// The cut of what a rank reduces, into units or parts of them: at lines of where it goes, so that vectors stand in
// slots as they will there.
struct UnitCut {
  uint64_t bytes;
  uint32_t skew;  // of where it goes: bytes behind the beginning of a line

  SL_HD uint64_t Begin(uint64_t i, uint32_t length) const { return i == 0 ? 0 : Within(i * length - skew); }
  SL_HD uint64_t End(uint64_t i, uint32_t length) const { return Within((i + 1) * length - skew); }
  SL_HD uint64_t Within(uint64_t at) const { return at < bytes ? at : bytes; }
};

// All ranks' contributions to a unit; `staged` has the peers' alone, aligned as where they go.
struct UnitOperands : Operands {
  uint64_t before;  // bytes of the own contribution to other units
  uint64_t after;

  SL_HD const uint8_t* Of(uint32_t r) const {
    return r == rank ? own : staged + (r - static_cast<uint32_t>(r > rank)) * stride;
  }
  SL_HD Vectors Cut() const { return Vectors::Of(bytes, ToVector(to), ShiftOf(own, to) != 0, before, after); }
};

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
//
// Moving the ranges of a direct operation by loads and stores.
#pragma once

#include "modules/algo-symmetric/kernels/direct/direct_table.h"
#include "modules/algo-symmetric/kernels/direct/spread.h"

namespace sl::algo_symmetric::kernels {

// Ranges of a table, of the same length, each to so many takers.
struct DirectRanges {
  const DirectTable* table;
  uint32_t ranges;
  uint32_t takers;
  uint64_t bytes;        // of each
  uint32_t piece_bytes;  // 0: there is one of each
  uint32_t first;        // whose turn it is
  bool pulled;           // peers' memory is loaded from
  bool alike;            // every place is aligned as what goes there

  SL_HD Spread<ManyPlaces> Of(uint32_t range) const {
    return {table->from[range], {table->to + range, takers}, pulled};
  }
  SL_HD bool StandsThere(uint32_t range) const { return ranges > 1 && table->from[range] == table->to[range]; }
};

// Calls with what a piece is of, where that is cut, and its number there. At any time a rank deals with many ranges,
// many deal with it, and what it copies within its own memory does not leave the wire idle: consecutive pieces are of
// different ranges, and where blocks have shares, consecutive blocks begin at different ones.
template <typename Call>
SL_HD void EachPiece(const dev::Draws& draws, const DirectRanges& in, const Call& call) {
  draws.Each([&](uint32_t piece) {
    const uint32_t range = (piece + in.first) % in.ranges;
    if (in.StandsThere(range)) return;
    const Spread<ManyPlaces> spread = in.Of(range);
    call(spread, spread.Cut(in.bytes, in.piece_bytes), piece / in.ranges);
  });
}
// Apart: it takes more registers than what is aligned alike has to spare.
SL_APART SL_HD void SpreadDirectAnyhow(const dev::Draws draws, const dev::Block worker, const DirectRanges in) {
  EachPiece(draws, in, [&](const Spread<ManyPlaces>& spread, const Pieces& pieces, uint32_t i) {
    SpreadBytes(worker, spread, in.bytes, pieces.Begin(i), pieces.End(i));
  });
}
SL_HD void SpreadDirect(const dev::Draws& draws, const dev::Block& worker, const DirectRanges& in) {
  if (!in.alike) return SpreadDirectAnyhow(draws, worker, in);
  EachPiece(draws, in, [&](const Spread<ManyPlaces>& spread, const Pieces& pieces, uint32_t i) {
    const uint8_t* place = spread.FirstPlace();
    if (place == nullptr) return;
    const SpreadPart part = spread.Part(place, in.bytes, pieces.Begin(i), pieces.End(i), false);
    SpreadVectors<false>(worker, spread, part, 0);
    SpreadEdges(worker, spread, part);
  });
}

}  // namespace sl::algo_symmetric::kernels

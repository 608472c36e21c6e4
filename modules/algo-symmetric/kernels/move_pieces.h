// SPDX-License-Identifier: Apache-2.0
//
// Moving a range of bytes from a buffer of this rank's to one place, at any alignment: all of it, or pieces that are
// drawn.
#pragma once

#include "modules/algo-symmetric/kernels/direct/spread.h"
#include "sdk/device/draw.h"

namespace sl::algo_symmetric::kernels {

// The vectors of a part. One loop whether they are shifted or not, so that what is not does without the registers that
// a second one takes: of eight loads each is a vector, or each pair is what one is put together from.
SL_HD void MoveVectors(const dev::Block& block, const Spread<OnePlace>& spread, const SpreadPart& part,
                       uint32_t shift) {
  constexpr uint32_t kLoads = 8;
  const bool shifted = part.vectors.shifted;
  const uint8_t* from = spread.from + part.begin + part.vectors.first - shift;
  uint8_t* to = spread.to.place + part.begin + part.vectors.first;
  const uint32_t total = part.vectors.count;
  // How far the vectors of two loads are from each other: within a pair, and from pair to pair.
  const uint32_t within = shifted ? 0 : block.threads();
  const uint32_t apart = shifted ? block.threads() : 2 * block.threads();
  SL_ROLLED
  for (uint32_t first = block.thread(); first < total; first += kLoads / 2 * apart) {
    dev::Vec16 v[kLoads];
    SL_UNROLL
    for (uint32_t j = 0; j < kLoads; ++j) {
      const uint32_t i = first + j / 2 * apart + j % 2 * within;
      const uint32_t behind = shifted ? j % 2 : 0;
      if (i < total) v[j] = dev::LoadPeer(from + (uint64_t{i} + behind) * kVectorBytes);
    }
    SL_UNROLL
    for (uint32_t j = 0; shifted && j < kLoads; j += 2) {
      if (first + j / 2 * apart < total) v[j] = dev::Between(v[j], v[j + 1], shift);
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kLoads; ++j) {
      const uint32_t i = first + j / 2 * apart + j % 2 * within;
      if (i < total && (j % 2 == 0 || !shifted)) dev::Store(to + uint64_t{i} * kVectorBytes, v[j]);
    }
  }
}

// `piece_bytes`: as Pieces has it.
SL_HD void MovePieces(const dev::Draws& draws, const dev::Block& worker, const uint8_t* from, uint8_t* to,
                      uint64_t bytes, uint32_t piece_bytes) {
  const Spread<OnePlace> spread{from, {to}, false};
  const uint32_t shift = ShiftOf(from, to);
  const Pieces pieces = spread.Cut(bytes, piece_bytes);
  draws.Each([&](uint32_t i) {
    const SpreadPart part = spread.Part(to, bytes, pieces.Begin(i), pieces.End(i), shift != 0);
    MoveVectors(worker, spread, part, shift);
    SpreadEdges(worker, spread, part);
  });
}
SL_HD void MoveBytes(const dev::Block& block, const uint8_t* from, uint8_t* to, uint64_t bytes) {
  MovePieces(dev::Draws::Whole(), block, from, to, bytes, 0);
}

}  // namespace sl::algo_symmetric::kernels

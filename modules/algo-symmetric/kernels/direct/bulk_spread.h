// SPDX-License-Identifier: Apache-2.0
//
// Moving ranges by bulk copies: of every block a few threads draw pieces, and have many kilobytes under way each. It
// takes fewer SMs to fill the wire than loads and stores of all threads do, but a piece is long on its way: it pays
// from tens of megabytes on (docs/gpu-performance-log.md).
#pragma once

#include "modules/algo-symmetric/kernels/direct/direct_spread.h"
#include "sdk/device/bulk.h"

namespace sl::algo_symmetric::kernels {

// What a stage holds.
struct BulkPart {
  uint64_t begin;  // in its range
  uint32_t range;
};
using BulkPipe = dev::BulkStages<BulkPart, 3, 8192>;
constexpr uint32_t kBulkPipes = 4;  // of a block
constexpr uint32_t kBulkSharedBytes = kBulkPipes * sizeof(BulkPipe);
static_assert(kBulkSharedBytes + 2048 <= 99 << 10, "what a block of any GPU from sm_80 on may have");
constexpr uint32_t kMostBulkPiece = 64 << 10;

// Workers of one block of so many threads.
SL_HD uint32_t BulkWorkersOf(uint32_t threads) {
  const uint32_t all = dev::Draws::WorkersOf(threads);
  return all < kBulkPipes ? all : kBulkPipes;
}

// Which piece of which range is drawn when. All of one peer come before those of the next: each GPU has to do with one
// other at a time, of which the wire carries more, and bulk copies, unlike loads and stores of all threads, keep in
// step. The last range, the own or the only one, is moved beside all.
struct DrawnPiece {
  uint32_t range;
  uint32_t number;  // of so many in each range

  SL_HD static DrawnPiece Of(uint32_t drawn, uint32_t ranges, uint32_t pieces) {
    const uint32_t turn = drawn / ranges;
    const uint32_t range = drawn % ranges;
    if (range + 1 == ranges) return {range, turn};
    const uint32_t of_peers = turn * (ranges - 1) + range;
    return {of_peers / pieces, of_peers % pieces};
  }
};

// The draws are BulkWorkersOf every block. For all its threads, those without a pipe too.
SL_HD void SpreadInBulk(const dev::Draws& draws, const dev::Block& block, const DirectRanges& in) {
#ifdef __CUDA_ARCH__
  extern __shared__ BulkPipe bulk_pipes[];
#else
  BulkPipe* const bulk_pipes = nullptr;
#endif
  const uint32_t number = block.thread() / 32;  // of the warp
  if (number >= kBulkPipes) return;
  const dev::Block worker = dev::Draws::WorkerOf(block);
  const uint64_t whole = in.bytes / kVectorBytes * kVectorBytes;
  for (uint32_t range = 0; range < in.ranges && number == 0 && block.index == 0; ++range) {
    if (!in.StandsThere(range)) SpreadBytes(worker, in.Of(range), in.bytes, whole, in.bytes);
  }
  const auto put_to_all = [&](const uint8_t* stage, uint32_t bytes, const BulkPart& part) {
    for (uint32_t t = 0; t < in.takers; ++t) {
      uint8_t* to = in.table->to[part.range + t];
      if (to != nullptr) dev::BulkPut(to + part.begin, stage, bytes);
    }
  };
  dev::BulkStream stream(bulk_pipes + number, put_to_all);
  const bool issues = worker.thread() == 0;
  if (issues) stream.Begin();
  const auto pieces = static_cast<uint32_t>((in.bytes + in.piece_bytes - 1) / in.piece_bytes);
  draws.Each([&](uint32_t drawn) {
    const DrawnPiece piece = DrawnPiece::Of(drawn, in.ranges, pieces);
    if (!issues || in.StandsThere(piece.range)) return;
    uint64_t at = uint64_t{piece.number} * in.piece_bytes;
    const uint64_t end = whole - at < in.piece_bytes ? whole : at + in.piece_bytes;
    while (at < end) {
      const uint32_t bytes = end - at < BulkPipe::kBytes ? static_cast<uint32_t>(end - at) : BulkPipe::kBytes;
      stream.Load(in.table->from[piece.range] + at, bytes, BulkPart{at, piece.range});
      at += bytes;
    }
  });
  if (issues) stream.Finish();
  dev::Block::SyncWarp();
}

}  // namespace sl::algo_symmetric::kernels

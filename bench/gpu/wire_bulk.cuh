// SPDX-License-Identifier: Apache-2.0
//
// Moving pieces in bulk, by the copy unit: one thread issues everything of a pipe.
#pragma once

#include "bench/gpu/wire.h"
#include "sdk/device/bulk.h"

namespace sl::bench {

constexpr uint32_t kStageBytes = 8192;
using BulkPipe = dev::BulkStages<uint8_t*, 5, kStageBytes>;
static_assert(sizeof(BulkPipe) == kPipeBytes);

struct BulkPiece {
  const uint8_t* from;
  uint8_t* to;
  uint32_t bytes;  // kStageBytes at most
};
// Moves the pieces that next(&piece) gives until it returns false; store(stage, bytes, to) stores one.
template <typename Next, typename Store>
__device__ void BulkMove(BulkPipe* pipe, const Next& next, const Store& store) {
  dev::BulkStream<BulkPipe, Store> stream(pipe, store);
  stream.Begin();
  for (BulkPiece piece; next(&piece);) stream.Load(piece.from, piece.bytes, piece.to);
  stream.Finish();
}

// This thread's pipe; NULL: it has none. kPipes threads of a block have one.
template <uint32_t kPipes>
__device__ BulkPipe* OwnPipe(uint8_t* memory) {
  const uint32_t warp = threadIdx.x / 32;
  return threadIdx.x % 32 != 0 || warp >= kPipes ? nullptr : reinterpret_cast<BulkPipe*>(memory) + warp;
}

}  // namespace sl::bench

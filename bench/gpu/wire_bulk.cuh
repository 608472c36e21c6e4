// SPDX-License-Identifier: Apache-2.0
//
// A pipe through shared memory by which one thread moves bytes in bulk, many loads and stores under way.
#pragma once

#include "bench/gpu/bulk.h"
#include "bench/gpu/wire.h"

namespace sl::bench {

// By the copy unit, through shared memory; one thread issues everything of a pipe.
constexpr uint32_t kStages = 5;
constexpr uint32_t kStageBytes = 8192;
struct BulkPipe {
  alignas(128) uint8_t stage[kStages][kStageBytes];
  BulkArrival arrival[kStages];
  uint8_t* to[kStages];
};
static_assert(sizeof(BulkPipe) == kPipeBytes);

struct BulkPiece {
  const uint8_t* from;
  uint8_t* to;
  uint32_t bytes;  // kStageBytes at most
};
// Moves the pieces that next(&piece) gives until it returns false: store(to, stage, bytes) begins a group of stores.
template <typename Next, typename Store>
__device__ void BulkStream(BulkPipe& pipe, const Next& next, const Store& store) {
  for (BulkArrival& arrival : pipe.arrival) arrival.Init();
  uint32_t bytes[kStages] = {};
  uint32_t loaded = 0;
  uint32_t stored = 0;
  for (bool more = true;;) {
    while (more && loaded - stored < kStages - 1) {
      BulkPiece piece;
      more = next(&piece);
      if (!more) break;
      BulkAwaitRead<1>();  // of all but the last store, hence of the stage taken over
      const uint32_t s = loaded++ % kStages;
      pipe.to[s] = piece.to;
      bytes[s] = piece.bytes;
      BulkLoad(pipe.stage[s], piece.from, piece.bytes, &pipe.arrival[s]);
    }
    if (stored == loaded) break;
    const uint32_t s = stored % kStages;
    pipe.arrival[s].Await(stored / kStages % 2);
    store(pipe.to[s], pipe.stage[s], bytes[s]);
    ++stored;
  }
  BulkAwaitStores();
}

// This thread's pipe; NULL: it has none. kPipes threads of a block have one.
template <uint32_t kPipes>
__device__ BulkPipe* OwnPipe(uint8_t* memory) {
  const uint32_t warp = threadIdx.x / 32;
  return threadIdx.x % 32 != 0 || warp >= kPipes ? nullptr : reinterpret_cast<BulkPipe*>(memory) + warp;
}

}  // namespace sl::bench

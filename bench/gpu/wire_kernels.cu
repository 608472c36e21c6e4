// SPDX-License-Identifier: Apache-2.0
//
// Ways to move data between GPUs. Every block moves its share of every peer's buffer; blocks begin with different
// peers.
#include "bench/gpu/wire.h"
#include "sdk/device/block.h"
#include "sdk/device/bulk.h"
#include "sdk/device/vector.h"

namespace sl::bench {
namespace {

using dev::Vec16;

// Of each buffer, one block's part.
struct Share {
  uint64_t begin;
  uint32_t vectors;

  __device__ explicit Share(const WireArgs& args, uint32_t block, uint32_t blocks) {
    const uint64_t share = args.bytes / blocks / 128 * 128;
    begin = block * share;
    vectors = static_cast<uint32_t>((block + 1 == blocks ? args.bytes - begin : share) / sizeof(Vec16));
  }
};

// Copies vectors, kUnroll in flight for each thread.
template <uint32_t kUnroll>
__device__ void Copy(const uint8_t* from, uint8_t* to, uint32_t vectors) {
  for (uint32_t first = threadIdx.x; first < vectors; first += kUnroll * blockDim.x) {
    Vec16 v[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * blockDim.x;
      if (i < vectors) v[j] = dev::LoadPeer(from + uint64_t{i} * sizeof(Vec16));
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * blockDim.x;
      if (i < vectors) dev::Store(to + uint64_t{i} * sizeof(Vec16), v[j]);
    }
  }
}

__device__ uint32_t PeerOf(const WireArgs& args, uint32_t turn) { return (turn + blockIdx.x) % args.peers; }

template <uint32_t kUnroll>
__device__ void Pull(const WireArgs& args, uint32_t block, uint32_t blocks) {
  const Share share(args, block, blocks);
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn);
    Copy<kUnroll>(args.peer[p] + share.begin, args.own + p * args.bytes + share.begin, share.vectors);
  }
}
template <uint32_t kUnroll>
__device__ void Push(const WireArgs& args, uint32_t block, uint32_t blocks) {
  const Share share(args, block, blocks);
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn);
    Copy<kUnroll>(args.own + p * args.bytes + share.begin, args.peer[p] + share.begin, share.vectors);
  }
}

// One vector of every peer, and to every peer, in turn: what an all-reduce between buffers does, without arithmetic.
__device__ void PullAndPush(const WireArgs& args) {
  const Share share(args, blockIdx.x, gridDim.x);
  for (uint32_t i = threadIdx.x; i < share.vectors; i += blockDim.x) {
    const uint64_t at = share.begin + uint64_t{i} * sizeof(Vec16);
    Vec16 v[kMostPeers];
    SL_UNROLL
    for (uint32_t p = 0; p < kMostPeers; ++p) {
      if (p < args.peers) v[p] = dev::LoadPeer(args.peer[p] + at);
    }
    Vec16 sum = v[0];
    SL_UNROLL
    for (uint32_t p = 1; p < kMostPeers; ++p) {
      for (uint32_t w = 0; w < 4; ++w) {
        if (p < args.peers) sum.word[w] ^= v[p].word[w];
      }
    }
    SL_UNROLL
    for (uint32_t p = 0; p < kMostPeers; ++p) {
      if (p < args.peers) dev::Store(args.peer[p] + at, sum);
    }
  }
}

// By the copy unit, through shared memory; one thread of a block issues everything.
constexpr uint32_t kStages = 5;
constexpr uint32_t kStageBytes = 8192;
struct BulkPipe {
  alignas(128) uint8_t stage[kStages][kStageBytes];
  dev::BulkArrival arrival[kStages];
};
__device__ void BulkCopy(BulkPipe& pipe, const uint8_t* from, uint8_t* to, uint32_t bytes, uint32_t* count) {
  const uint32_t chunks = (bytes + kStageBytes - 1) / kStageBytes;
  const auto size = [&](uint32_t c) { return c + 1 < chunks ? kStageBytes : bytes - c * kStageBytes; };
  const auto load = [&](uint32_t c) {
    const uint32_t s = (*count + c) % kStages;
    dev::BulkLoad(pipe.stage[s], from + uint64_t{c} * kStageBytes, size(c), &pipe.arrival[s]);
  };
  dev::BulkAwaitRead<0>();
  for (uint32_t c = 0; c < kStages - 1 && c < chunks; ++c) load(c);
  for (uint32_t c = 0; c < chunks; ++c) {
    const uint32_t s = (*count + c) % kStages;
    pipe.arrival[s].Await((*count + c) / kStages % 2);
    dev::BulkStore(to + uint64_t{c} * kStageBytes, pipe.stage[s], size(c));
    if (c + kStages - 1 >= chunks) continue;
    dev::BulkAwaitRead<1>();  // the stage of chunk c - 1, which chunk c + kStages - 1 takes over
    load(c + kStages - 1);
  }
  *count += chunks;
}
__device__ void Bulk(const WireArgs& args, bool pushes) {
  __shared__ BulkPipe pipe;
  if (threadIdx.x != 0) return;
  for (dev::BulkArrival& arrival : pipe.arrival) arrival.Init();
  const Share share(args, blockIdx.x, gridDim.x);
  const uint32_t bytes = share.vectors * sizeof(Vec16);
  uint32_t count = 0;
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn);
    uint8_t* own = args.own + p * args.bytes + share.begin;
    uint8_t* peer = args.peer[p] + share.begin;
    BulkCopy(pipe, pushes ? own : peer, pushes ? peer : own, bytes, &count);
  }
  dev::BulkAwaitStores();
}

}  // namespace
}  // namespace sl::bench

#define SL_WIRE_KERNEL(name, ...)                                                   \
  extern "C" __global__ void __launch_bounds__(sl::bench::kWireThreads)             \
      name(const __grid_constant__ sl::bench::WireArgs args) {                      \
    using namespace sl::bench; /* NOLINT(google-build-using-namespace): a kernel */ \
    __VA_ARGS__;                                                                    \
  }

SL_WIRE_KERNEL(pull_4, Pull<4>(args, blockIdx.x, gridDim.x))
SL_WIRE_KERNEL(pull_8, Pull<8>(args, blockIdx.x, gridDim.x))
SL_WIRE_KERNEL(pull_16, Pull<16>(args, blockIdx.x, gridDim.x))
SL_WIRE_KERNEL(push_4, Push<4>(args, blockIdx.x, gridDim.x))
SL_WIRE_KERNEL(push_8, Push<8>(args, blockIdx.x, gridDim.x))
SL_WIRE_KERNEL(push_16, Push<16>(args, blockIdx.x, gridDim.x))
// Half the blocks load, half store: each moves all buffers, so twice the bytes.
SL_WIRE_KERNEL(
    both_8, if (blockIdx.x % 2 == 0) { Pull<8>(args, blockIdx.x / 2, gridDim.x / 2); } else {
      Push<8>(args, blockIdx.x / 2, gridDim.x / 2);
    })
SL_WIRE_KERNEL(pull_and_push, PullAndPush(args))
SL_WIRE_KERNEL(bulk_pull, Bulk(args, false))
SL_WIRE_KERNEL(bulk_push, Bulk(args, true))

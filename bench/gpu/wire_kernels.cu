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

// The same, every warp on a run of its own: kUnroll consecutive times 512 bytes.
template <uint32_t kUnroll>
__device__ void CopyByWarps(const uint8_t* from, uint8_t* to, uint32_t vectors) {
  const uint32_t run = kUnroll * 32;
  for (uint32_t first = threadIdx.x / 32 * run + threadIdx.x % 32; first < vectors; first += kUnroll * blockDim.x) {
    Vec16 v[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * 32;
      if (i < vectors) v[j] = dev::LoadPeer(from + uint64_t{i} * sizeof(Vec16));
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * 32;
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

template <uint32_t kUnroll>
__device__ void PushByWarps(const WireArgs& args) {
  const Share share(args, blockIdx.x, gridDim.x);
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn);
    CopyByWarps<kUnroll>(args.own + p * args.bytes + share.begin, args.peer[p] + share.begin, share.vectors);
  }
}

// What an all-to-all does: besides, a buffer within the own memory, in turn with the peers' or by every sixth block
// alone.
__device__ void PushAndCopy(const WireArgs& args) {
  const Share share(args, blockIdx.x, gridDim.x);
  for (uint32_t turn = 0; turn <= args.peers; ++turn) {
    const uint32_t p = (turn + blockIdx.x) % (args.peers + 1);
    uint8_t* to = p < args.peers ? args.peer[p] : args.own + args.bytes;
    Copy<8>(args.own + (p < args.peers ? p : 0) * args.bytes + share.begin, to + share.begin, share.vectors);
  }
}
__device__ void PushAndCopyApart(const WireArgs& args) {
  const uint32_t apart = (gridDim.x + 5) / 6;
  if (blockIdx.x < apart) {
    const Share share(args, blockIdx.x, apart);
    Copy<8>(args.own + share.begin, args.own + args.bytes + share.begin, share.vectors);
  } else {
    Push<8>(args, blockIdx.x - apart, gridDim.x - apart);
  }
}

// What an all-reduce by stores alone does, without arithmetic: some warps store to every peer, the others load as many
// buffers of the own memory and store one vector to every peer.
template <uint32_t kUnroll>
__device__ void PushThenPush(const WireArgs& args) {
  constexpr uint32_t kHalf = kWireThreads / 2;
  const Share share(args, blockIdx.x, gridDim.x);
  const uint32_t thread = threadIdx.x % kHalf;
  if (threadIdx.x < kHalf) {
    for (uint32_t turn = 0; turn < args.peers; ++turn) {
      const uint32_t p = PeerOf(args, turn);
      const uint8_t* from = args.own + p * args.bytes + share.begin;
      for (uint32_t first = thread; first < share.vectors; first += kUnroll * kHalf) {
        Vec16 v[kUnroll];
        SL_UNROLL
        for (uint32_t j = 0; j < kUnroll; ++j) {
          const uint32_t i = first + j * kHalf;
          if (i < share.vectors) v[j] = dev::LoadPeer(from + uint64_t{i} * sizeof(Vec16));
        }
        SL_UNROLL
        for (uint32_t j = 0; j < kUnroll; ++j) {
          const uint32_t i = first + j * kHalf;
          if (i < share.vectors) dev::Store(args.peer[p] + share.begin + uint64_t{i} * sizeof(Vec16), v[j]);
        }
      }
    }
    return;
  }
  for (uint32_t i = thread; i < share.vectors; i += kHalf) {
    const uint64_t at = share.begin + uint64_t{i} * sizeof(Vec16);
    Vec16 v[kMostPeers];
    SL_UNROLL
    for (uint32_t p = 0; p < kMostPeers; ++p) {
      if (p < args.peers) v[p] = dev::LoadPeer(args.own + p * args.bytes + at);
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

// By the copy unit, through shared memory; one thread issues everything of a pipe.
constexpr uint32_t kStages = 5;
constexpr uint32_t kStageBytes = 8192;
struct BulkPipe {
  alignas(128) uint8_t stage[kStages][kStageBytes];
  dev::BulkArrival arrival[kStages];
};
static_assert(sizeof(BulkPipe) == kPipeBytes);
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
// kPipes threads of a block, each with a pipe and a part of the share. The pipes lie in `memory`.
template <uint32_t kPipes>
__device__ void Bulk(const WireArgs& args, bool pushes, uint8_t* memory) {
  const uint32_t lane = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0 || lane >= kPipes) return;
  BulkPipe& pipe = reinterpret_cast<BulkPipe*>(memory)[lane];
  for (dev::BulkArrival& arrival : pipe.arrival) arrival.Init();
  const Share share(args, blockIdx.x * kPipes + lane, gridDim.x * kPipes);
  const uint32_t bytes = share.vectors * sizeof(Vec16);
  uint32_t count = 0;
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn + lane);
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
SL_WIRE_KERNEL(push_warps_4, PushByWarps<4>(args))
SL_WIRE_KERNEL(push_warps_8, PushByWarps<8>(args))
SL_WIRE_KERNEL(push_and_copy, PushAndCopy(args))
SL_WIRE_KERNEL(push_and_copy_apart, PushAndCopyApart(args))
SL_WIRE_KERNEL(push_then_push, PushThenPush<8>(args))

extern __shared__ __align__(128) uint8_t dynamic_memory[];
SL_WIRE_KERNEL(bulk_pull, Bulk<1>(args, false, dynamic_memory))
SL_WIRE_KERNEL(bulk_push, Bulk<1>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_push_2, Bulk<2>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_push_4, Bulk<4>(args, true, dynamic_memory))

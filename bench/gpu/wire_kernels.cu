// SPDX-License-Identifier: Apache-2.0
//
// Ways to move data between GPUs. Every block moves its share of every peer's buffer; blocks begin with different
// peers.
#include "bench/gpu/wire.h"
#include "bench/gpu/wire_bulk.cuh"
#include "sdk/device/block.h"
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

// Those of a block's threads that do something together.
struct Crew {
  uint32_t thread;
  uint32_t threads;
};
__device__ Crew WholeBlock() { return {threadIdx.x, blockDim.x}; }

// Copies vectors, kUnroll in flight for each thread.
template <uint32_t kUnroll>
__device__ void Copy(const uint8_t* from, uint8_t* to, uint32_t vectors, Crew crew = WholeBlock()) {
  for (uint32_t first = crew.thread; first < vectors; first += kUnroll * crew.threads) {
    Vec16 v[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * crew.threads;
      if (i < vectors) v[j] = dev::LoadPeer(from + uint64_t{i} * sizeof(Vec16));
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * crew.threads;
      if (i < vectors) dev::Store(to + uint64_t{i} * sizeof(Vec16), v[j]);
    }
  }
}

// One vector of every buffer source(p), all combined into one, and that one to every peer; then the next.
template <typename Source>
__device__ void CombineToAll(const WireArgs& args, const Share& share, Crew crew, const Source& source) {
  for (uint32_t i = crew.thread; i < share.vectors; i += crew.threads) {
    const uint64_t at = share.begin + uint64_t{i} * sizeof(Vec16);
    Vec16 v[kMostPeers];
    SL_UNROLL
    for (uint32_t p = 0; p < kMostPeers; ++p) {
      if (p < args.peers) v[p] = dev::LoadPeer(source(p) + at);
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
  const Crew crew{threadIdx.x % kHalf, kHalf};
  if (threadIdx.x >= kHalf)
    return CombineToAll(args, share, crew, [&](uint32_t p) { return args.own + p * args.bytes; });
  for (uint32_t turn = 0; turn < args.peers; ++turn) {
    const uint32_t p = PeerOf(args, turn);
    Copy<kUnroll>(args.own + p * args.bytes + share.begin, args.peer[p] + share.begin, share.vectors, crew);
  }
}

// What an all-reduce between buffers does, without arithmetic.
__device__ void PullAndPush(const WireArgs& args) {
  const Share share(args, blockIdx.x, gridDim.x);
  CombineToAll(args, share, WholeBlock(), [&](uint32_t p) { return args.peer[p]; });
}

// Pieces that workers draw, so that none waits for a slower one, and all are at work near each other. Consecutive
// pieces go to different peers.
class Draws {
 public:
  __device__ Draws(const WireArgs& args, uint64_t piece_bytes, uint32_t workers)
      : args_(args),
        piece_bytes_(piece_bytes),
        total_(static_cast<uint32_t>(args.bytes / piece_bytes) * args.peers),
        workers_(workers) {}

  // False when there are none left, which every worker hears once; the last one to hear it clears the counter.
  __device__ bool Next(uint32_t* peer, uint64_t* at) const {
    const uint32_t drawn = atomicAdd(args_.drawn, 1);
    if (drawn == total_ + workers_ - 1) *args_.drawn = 0;
    *peer = drawn % args_.peers;
    *at = drawn / args_.peers * piece_bytes_;
    return drawn < total_;
  }

 private:
  const WireArgs& args_;
  const uint64_t piece_bytes_;
  const uint32_t total_;
  const uint32_t workers_;
};

// Every warp draws.
__device__ void PushDrawn(const WireArgs& args) {
  constexpr uint32_t kUnroll = 8;
  constexpr uint32_t kPieceBytes = 32 << 10;
  constexpr uint32_t kVectors = kPieceBytes / sizeof(Vec16);
  const Draws draws(args, kPieceBytes, gridDim.x * kWireThreads / 32);
  const uint32_t lane = threadIdx.x % 32;
  for (;;) {
    uint32_t p = 0;
    uint64_t at = 0;
    bool more = lane != 0 || draws.Next(&p, &at);
    more = __shfl_sync(~0u, more, 0);
    if (!more) return;
    p = __shfl_sync(~0u, p, 0);
    at = __shfl_sync(~0u, at, 0);
    const uint8_t* from = args.own + p * args.bytes + at;
    uint8_t* to = args.peer[p] + at;
    for (uint32_t first = lane; first < kVectors; first += 32 * kUnroll) {
      Vec16 v[kUnroll];
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) v[j] = dev::LoadPeer(from + (first + j * 32) * sizeof(Vec16));
      SL_UNROLL
      for (uint32_t j = 0; j < kUnroll; ++j) dev::Store(to + (first + j * 32) * sizeof(Vec16), v[j]);
    }
  }
}

struct StoreOnce {
  __device__ void operator()(const uint8_t* stage, uint32_t bytes, uint8_t* to) const {
    dev::BulkPut(to, stage, bytes);
  }
};

// Every pipe has a part of the share.
template <uint32_t kPipes>
__device__ void Bulk(const WireArgs& args, bool pushes, uint8_t* memory) {
  BulkPipe* pipe = OwnPipe<kPipes>(memory);
  if (pipe == nullptr) return;
  const uint32_t warp = threadIdx.x / 32;
  const Share share(args, blockIdx.x * kPipes + warp, gridDim.x * kPipes);
  const uint32_t bytes = share.vectors * sizeof(Vec16);
  uint32_t turn = 0;
  uint32_t at = 0;
  const auto next = [&](BulkPiece* piece) {
    if (turn == args.peers) return false;
    const uint32_t p = PeerOf(args, turn + warp);
    uint8_t* own = args.own + p * args.bytes + share.begin + at;
    uint8_t* peer = args.peer[p] + share.begin + at;
    *piece = {pushes ? own : peer, pushes ? peer : own, bytes - at < kStageBytes ? bytes - at : kStageBytes};
    at += piece->bytes;
    if (at == bytes) {
      at = 0;
      ++turn;
    }
    return true;
  };
  BulkMove(pipe, next, StoreOnce{});
}

// Pipes draw pieces of kDrawnBytes, or, not `drawn`, take them in turn.
constexpr uint32_t kDrawnBytes = 64 << 10;
class DrawnPieces {
 public:
  __device__ DrawnPieces(const WireArgs& args, uint32_t worker, uint32_t workers, bool drawn)
      : args_(args), draws_(args, kDrawnBytes, workers), turn_(worker), workers_(workers), drawn_(drawn) {}
  __device__ bool Next(BulkPiece* piece) {
    if (at_ == kDrawnBytes) {
      at_ = 0;
      if (drawn_) {
        if (!draws_.Next(&peer_, &begin_)) return false;
      } else {
        if (turn_ >= args_.bytes / kDrawnBytes * args_.peers) return false;
        peer_ = turn_ % args_.peers;
        begin_ = turn_ / args_.peers * uint64_t{kDrawnBytes};
        turn_ += workers_;
      }
    }
    const uint64_t at = begin_ + at_;
    *piece = {args_.own + peer_ * args_.bytes + at, args_.peer[peer_] + at, kStageBytes};
    at_ += kStageBytes;
    return true;
  }

 private:
  const WireArgs& args_;
  const Draws draws_;
  uint32_t turn_;
  const uint32_t workers_;
  const bool drawn_;
  uint32_t peer_ = 0;
  uint64_t begin_ = 0;
  uint32_t at_ = kDrawnBytes;
};
template <uint32_t kPipes>
__device__ void BulkDrawn(const WireArgs& args, bool drawn, uint8_t* memory) {
  BulkPipe* pipe = OwnPipe<kPipes>(memory);
  if (pipe == nullptr) return;
  DrawnPieces pieces(args, blockIdx.x * kPipes + threadIdx.x / 32, gridDim.x * kPipes, drawn);
  BulkMove(
      pipe, [&](BulkPiece* piece) { return pieces.Next(piece); }, StoreOnce{});
}

// An all-reduce by stores alone, in bulk, without arithmetic: one pipe of a block stores to every peer what it wants,
// the other stores one buffer of the own memory to all.
__device__ void BulkReduce(const WireArgs& args, uint8_t* memory) {
  BulkPipe* pipe = OwnPipe<2>(memory);
  if (pipe == nullptr) return;
  if (threadIdx.x == 0) {
    DrawnPieces pieces(args, blockIdx.x, gridDim.x, true);
    return BulkMove(
        pipe, [&](BulkPiece* piece) { return pieces.Next(piece); }, StoreOnce{});
  }
  const Share share(args, blockIdx.x, gridDim.x);
  const uint32_t bytes = share.vectors * sizeof(Vec16);
  uint32_t at = 0;
  const auto next = [&](BulkPiece* piece) {
    if (at == bytes) return false;
    *piece = {args.own + share.begin + at, args.peer[0] + share.begin + at,
              bytes - at < kStageBytes ? bytes - at : kStageBytes};
    at += piece->bytes;
    return true;
  };
  const auto to_all = [&](const uint8_t* stage, uint32_t some, uint8_t* to) {
    const uint64_t offset = to - args.peer[0];
    for (uint32_t p = 1; p < args.peers; ++p) dev::BulkPut(args.peer[p] + offset, stage, some);
    dev::BulkPut(to, stage, some);
  };
  BulkMove(pipe, next, to_all);
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
SL_WIRE_KERNEL(push_and_copy, PushAndCopy(args))
SL_WIRE_KERNEL(push_and_copy_apart, PushAndCopyApart(args))
SL_WIRE_KERNEL(push_then_push, PushThenPush<8>(args))

extern __shared__ __align__(128) uint8_t dynamic_memory[];
SL_WIRE_KERNEL(bulk_pull, Bulk<1>(args, false, dynamic_memory))
SL_WIRE_KERNEL(bulk_push, Bulk<1>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_push_2, Bulk<2>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_push_4, Bulk<4>(args, true, dynamic_memory))
SL_WIRE_KERNEL(push_drawn, PushDrawn(args))
SL_WIRE_KERNEL(bulk_turns_2, BulkDrawn<2>(args, false, dynamic_memory))
SL_WIRE_KERNEL(bulk_drawn_1, BulkDrawn<1>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_drawn_2, BulkDrawn<2>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_drawn_4, BulkDrawn<4>(args, true, dynamic_memory))
SL_WIRE_KERNEL(bulk_reduce, BulkReduce(args, dynamic_memory))

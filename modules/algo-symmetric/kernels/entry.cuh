// SPDX-License-Identifier: Apache-2.0
//
// One entry point for a protocol and a format; args.h is all that a launch passes.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "modules/algo-symmetric/kernels/direct/push_block.h"
#include "modules/algo-symmetric/kernels/packets/hand_on.h"
#include "modules/algo-symmetric/kernels/packets/one_shot.h"
#include "modules/algo-symmetric/kernels/packets/two_shot.h"
#include "modules/algo-symmetric/kernels/rounds/staged.h"
#include "sdk/device/grid.h"

// Straight between callers' buffers where all ranks reach them, else in rounds.
#define SL_STAGED_KERNEL(name, Format)                                                \
  extern "C" __global__ void __launch_bounds__(sl::algo_symmetric::kernels::kThreads) \
      name(const __grid_constant__ sl::algo_symmetric::kernels::LongArgs args) {      \
    __shared__ sl::algo_symmetric::kernels::DirectTable table;                        \
    const sl::dev::Block block = sl::dev::Block::Whole(blockIdx.x);                   \
    sl::dev::AwaitEarlierGrids();                                                     \
    if (!sl::algo_symmetric::kernels::RunDirect<Format>(args, block, &table)) {       \
      sl::algo_symmetric::kernels::RunStaged<Format>(args.args, block);               \
    }                                                                                 \
  }

// A reduce-scatter whose contributions are pushed.
#define SL_PUSH_REDUCE_KERNEL(name, Format)                                                      \
  extern "C" __global__ void __launch_bounds__(sl::algo_symmetric::kernels::kThreads)            \
      name(const __grid_constant__ sl::algo_symmetric::kernels::LongArgs args) {                 \
    __shared__ sl::algo_symmetric::kernels::Places places;                                       \
    const sl::dev::Block block = sl::dev::Block::Whole(blockIdx.x);                              \
    sl::dev::AwaitEarlierGrids();                                                                \
    sl::algo_symmetric::kernels::RunPushReduce<sl::dev::FormatOf<Format>>(args, block, &places); \
  }

#define SL_PACKET_KERNEL(name, Protocol, Element, Format)                                               \
  extern "C" __global__ void __launch_bounds__(sl::algo_symmetric::kernels::kThreads)                   \
      name(const __grid_constant__ sl::algo_symmetric::kernels::Args args) {                            \
    using Data = sl::algo_symmetric::kernels::Format::Data;                                             \
    __shared__ Data shared[sl::algo_symmetric::kernels::kSharedBytes / sizeof(Data)];                   \
    sl::dev::AwaitEarlierGrids();                                                                       \
    using Kernel = sl::algo_symmetric::kernels::Protocol<Element, sl::algo_symmetric::kernels::Format>; \
    Kernel(args, sl::dev::Block::Whole(blockIdx.x), shared).Run();                                      \
  }

// All kernels of one format of packets.
#define SL_PACKET_KERNELS(Format)                               \
  SL_PACKET_KERNEL(one_shot_move, OneShotPackets, void, Format) \
  SL_PACKET_REDUCTIONS(one_shot, OneShotPackets, Format)        \
  SL_PACKET_REDUCTIONS(two_shot, TwoShotPackets, Format)        \
  SL_PACKET_KERNEL(two_shot_move, HandOnPackets, void, Format)
#define SL_PACKET_REDUCTIONS(prefix, Protocol, Format)                                   \
  SL_PACKET_KERNEL(prefix##_int8, Protocol, sl::dev::FormatOf<SL_INT8>, Format)          \
  SL_PACKET_KERNEL(prefix##_uint8, Protocol, sl::dev::FormatOf<SL_UINT8>, Format)        \
  SL_PACKET_KERNEL(prefix##_int32, Protocol, sl::dev::FormatOf<SL_INT32>, Format)        \
  SL_PACKET_KERNEL(prefix##_uint32, Protocol, sl::dev::FormatOf<SL_UINT32>, Format)      \
  SL_PACKET_KERNEL(prefix##_int64, Protocol, sl::dev::FormatOf<SL_INT64>, Format)        \
  SL_PACKET_KERNEL(prefix##_uint64, Protocol, sl::dev::FormatOf<SL_UINT64>, Format)      \
  SL_PACKET_KERNEL(prefix##_float16, Protocol, sl::dev::FormatOf<SL_FLOAT16>, Format)    \
  SL_PACKET_KERNEL(prefix##_float32, Protocol, sl::dev::FormatOf<SL_FLOAT32>, Format)    \
  SL_PACKET_KERNEL(prefix##_float64, Protocol, sl::dev::FormatOf<SL_FLOAT64>, Format)    \
  SL_PACKET_KERNEL(prefix##_bfloat16, Protocol, sl::dev::FormatOf<SL_BFLOAT16>, Format)  \
  SL_PACKET_KERNEL(prefix##_fp8e4m3, Protocol, sl::dev::FormatOf<SL_FLOAT8E4M3>, Format) \
  SL_PACKET_KERNEL(prefix##_fp8e5m2, Protocol, sl::dev::FormatOf<SL_FLOAT8E5M2>, Format)

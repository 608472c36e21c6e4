// SPDX-License-Identifier: Apache-2.0
//
// One entry point for a protocol and a format; args.h is all that a launch passes.
#pragma once

#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/direct.h"
#include "modules/algo-symmetric/kernels/one_shot.h"
#include "modules/algo-symmetric/kernels/staged.h"
#include "modules/algo-symmetric/kernels/two_shot.h"
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
    sl::dev::LetNextGridLaunch();                                                     \
  }

#define SL_PACKET_KERNEL(name, Protocol, Format)                                                          \
  extern "C" __global__ void __launch_bounds__(sl::algo_symmetric::kernels::kThreads)                     \
      name(const __grid_constant__ sl::algo_symmetric::kernels::Args args) {                              \
    __shared__ sl::dev::Vec8 shared[sl::algo_symmetric::kernels::kSharedPackets];                         \
    sl::dev::AwaitEarlierGrids();                                                                         \
    sl::algo_symmetric::kernels::Protocol<Format>(args, sl::dev::Block::Whole(blockIdx.x), shared).Run(); \
    sl::dev::LetNextGridLaunch();                                                                         \
  }

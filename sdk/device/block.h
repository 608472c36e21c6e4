// SPDX-License-Identifier: Apache-2.0
//
// The threads that run a protocol together: a block of a GPU's grid, or some warps of it; on a host, the one thread
// that stands for them.
#pragma once

#include <cstdint>

#include "sdk/device/sync.h"

// A function with registers of its own: what surrounds its calls cannot crowd its loops into spilling.
#if defined(__CUDACC__)
#define SL_APART __noinline__
#define SL_ROLLED _Pragma("unroll 1")
#else
#define SL_APART
#define SL_ROLLED
#endif

namespace sl::dev {

struct Block {
  uint32_t index;    // in the grid
  uint32_t first;    // thread of the grid's block; a multiple of 32
  uint32_t count;    // of threads; a multiple of 32
  uint32_t barrier;  // hardware barrier of these threads; 0 is the whole block's

  SL_HD static Block Whole(uint32_t index) {
#ifdef __CUDA_ARCH__
    return {index, 0, blockDim.x, 0};
#else
    return {index, 0, 1, 0};
#endif
  }
  // Warps of the block that work on their own; parts do not overlap, and each has a barrier of its own.
  SL_HD static Block Part(uint32_t index, uint32_t first, uint32_t count, uint32_t barrier) {
    return {index, first, count, barrier};
  }

  SL_HD uint32_t thread() const {
#ifdef __CUDA_ARCH__
    return threadIdx.x - first;
#else
    return 0;
#endif
  }
  SL_HD uint32_t threads() const {
#ifdef __CUDA_ARCH__
    return count;
#else
    return 1;
#endif
  }
  // The number of the thread half a block further on, for work that other warps are to do than those with the lowest
  // numbers, which have some already: a warp does one branch after the other.
  SL_HD uint32_t opposite() const {
    const uint32_t half = threads() / 2;
    return thread() < half ? thread() + threads() - half : thread() - half;
  }
  // Every thread's accesses before it are ordered before every thread's accesses after it. A warp comes to the hardware
  // barrier as one, hence `.aligned`: for threads that may come one by one nvcc 13.0 makes code in which one of them
  // waits for all, which an H200 called an illegal instruction now and then, and synccheck a divergent barrier.
  SL_HD void Sync() const {
#ifdef __CUDA_ARCH__
    __syncwarp();
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(count) : "memory");
#endif
  }
  // The same as Sync, and tells all whether any of them says so.
  SL_HD bool SyncAny(bool mine) const {
#ifdef __CUDA_ARCH__
    uint32_t any;
    __syncwarp();
    asm volatile(
        "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; barrier.cta.red.or.pred.aligned q, %2, %3, p; selp.u32 %0, 1, 0, q; }"
        : "=r"(any)
        : "r"(static_cast<uint32_t>(mine)), "r"(barrier), "r"(count)
        : "memory");
    return any != 0;
#else
    return mine;
#endif
  }
  // Threads of a warp go on together.
  SL_HD static void SyncWarp() {
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }
  // Whether all threads of the warp say so; all of them come.
  SL_HD static bool AllOfWarp(bool mine) {
#ifdef __CUDA_ARCH__
    return __all_sync(0xffffffff, mine);
#else
    return mine;
#endif
  }
};

}  // namespace sl::dev

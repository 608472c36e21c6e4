// SPDX-License-Identifier: Apache-2.0
//
// The threads that run a protocol together: a block of a GPU's grid, or, on a host, the one thread that stands for it.
#pragma once

#include <cstdint>

#include "sdk/device/sync.h"

namespace sl::dev {

struct Block {
  uint32_t index;  // in the grid

  SL_HD uint32_t thread() const {
#ifdef __CUDA_ARCH__
    uint32_t x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
#else
    return 0;
#endif
  }
  SL_HD uint32_t threads() const {
#ifdef __CUDA_ARCH__
    return blockDim.x;
#else
    return 1;
#endif
  }
  // Every thread's accesses before it are ordered before every thread's accesses after it.
  SL_HD void Sync() const {
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }
  // The same, and tells all whether any of them says so.
  SL_HD bool SyncAny(bool mine) const {
#ifdef __CUDA_ARCH__
    return __syncthreads_or(mine) != 0;
#else
    return mine;
#endif
  }
};

}  // namespace sl::dev

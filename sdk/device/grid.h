// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launch (sl_launch_t, SL_LAUNCH_DEPENDENT): a grid is put on the GPU while the one before it in
// its stream ends, and waits there. From sm_90 on; elsewhere a grid begins when the one before is over, and none of
// this does anything.
#pragma once

#include "sdk/device/sync.h"

namespace sl::dev {

// Until the grids before it in the stream are over: what they did is visible afterwards. First of all in a kernel that
// is launched so.
SL_HD void AwaitEarlierGrids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Has a value in a register, of 4 or 8 bytes, before what follows: what it is made of is looked up while the grid still
// waits.
template <typename T>
SL_HD void Fetch([[maybe_unused]] const T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 8) {
    asm volatile("" ::"l"(value));
  } else {
    asm volatile("" ::"r"(value));
  }
#endif
}

// The next grid may be put on the GPU, once all blocks have said so or are over. Last of all, after all waits for
// peers: a grid that waits on the GPU holds SMs, which kernels of other streams may need for these peers to go on.
SL_HD void LetNextGridLaunch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace sl::dev

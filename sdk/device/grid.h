// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launch (sl_launch_t, SL_LAUNCH_DEPENDENT): a grid is put on the GPU while the one before it in
// its stream ends, and waits there. From sm_90 on; elsewhere a grid begins when the one before is over, and none of
// this does anything.
#pragma once

#include <type_traits>

#include "sdk/device/sync.h"

namespace sl::dev {

// Until the grids before it in the stream are over: what they did is visible afterwards. First of all in a kernel that
// is launched so.
SL_HD void AwaitEarlierGrids() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <typename T>
SL_HD uint64_t BitsOf(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<uintptr_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

// Has values, of up to 8 bytes and not all of them 0, before what follows: they are looked up while the grid still
// waits. An assembler may look up arguments later, and does, unless something depends on them before.
template <typename... Values>
SL_HD void Fetch([[maybe_unused]] const Values&... values) {
#ifdef __CUDA_ARCH__
  const uint64_t any = (BitsOf(values) | ...);
  asm volatile("{ .reg .pred none; setp.eq.u64 none, %0, 0; @none trap; }" ::"l"(any) : "memory");
#endif
}

// The next grid may be put on the GPU, once all blocks have said so or are over. Not before this block knows that its
// counterparts on all peers run: a grid that waits on the GPU holds SMs, which kernels of other streams may need for
// these peers to come. A grid of few blocks of little code, which fit beside others on an SM, may say so as soon as it
// has sent what peers wait for: streams then hold twice as many SMs at most.
SL_HD void LetNextGridLaunch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace sl::dev

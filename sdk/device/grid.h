// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launch (sl_launch_t, SL_LAUNCH_DEPENDENT): a grid is put on the GPU while the one before it in
// its stream ends, and waits there. From sm_90 on; elsewhere a grid begins when the one before is over, and none of
// this does anything.
#pragma once

#include <type_traits>

#include "sdk/device/sync.h"

#ifndef __CUDA_ARCH__
#include <atomic>
#endif

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

#ifndef __CUDA_ARCH__
inline std::atomic<uint64_t> grids_let_in{0};  // for tests: how often blocks on the host have called LetNextGridLaunch
#endif

// The next grid in the stream may be put on the GPU once every block of this one has called this or is over. The first
// call of any thread counts for its block, and a block that never calls lets the next grid in by its exit.
//
// Two rules follow. The whole block must have heard all that it waits for: what comes in may be anybody's kernel, of
// any size, and may take the SMs that a missing peer needs. And the grid behind the next one may run beside this one,
// since a kernel of somebody else that never waits may come between: what this block counts must say that it is under
// way.
SL_HD void LetNextGridLaunch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#elif !defined(__CUDA_ARCH__)
  grids_let_in.fetch_add(1);
#endif
}

}  // namespace sl::dev

// SPDX-License-Identifier: Apache-2.0
//
// The finest clock there is, in ticks; program and probe read the same one.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "sdk/clock.h"

namespace sl::bench {

inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return NowNs();
#endif
}

}  // namespace sl::bench

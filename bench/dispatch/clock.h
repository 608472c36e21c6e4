// SPDX-License-Identifier: Apache-2.0
//
// The finest clock there is, in ticks; program and probe read the same one.
#pragma once

#include <time.h>

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace sl::bench {

inline uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return NowNs();
#endif
}

}  // namespace sl::bench

// SPDX-License-Identifier: Apache-2.0
//
// The clock of every deadline and of everything that is timed.
#pragma once

#include <time.h>

#include <cstdint>

namespace sl {

// CLOCK_MONOTONIC now, in ns.
inline uint64_t NowNs() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace sl

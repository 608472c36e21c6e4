// SPDX-License-Identifier: Apache-2.0
//
// Waiting for a GPU by asking again and again: at once at first, for most work is short, then with growing naps.
#ifndef STARLING_MODULES_DEVICE_CUDA_WAIT_H_
#define STARLING_MODULES_DEVICE_CUDA_WAIT_H_

#include <time.h>

#include <algorithm>
#include <cstdint>

#include "sdk/clock.h"

namespace sl::device_cuda {

class Naps {
 public:
  // Returns when it is time to ask again; false once the deadline has passed.
  bool Nap(uint64_t deadline_ns) {
    const uint64_t now = NowNs();
    if (now >= deadline_ns) return false;
    if (first_ns_ == 0) first_ns_ = now;
    if (now - first_ns_ < kSpinNs) return true;
    const uint64_t nap_ns = std::min(nap_ns_, deadline_ns - now);
    const timespec nap = {0, static_cast<long>(nap_ns)};
    nanosleep(&nap, nullptr);
    nap_ns_ = std::min(nap_ns_ * 2, kLongestNapNs);
    return true;
  }

 private:
  // Longer than a launch and its way there and back; a nap costs about 50 us more than it says.
  static constexpr uint64_t kSpinNs = 50'000;
  static constexpr uint64_t kLongestNapNs = 1'000'000;

  uint64_t first_ns_ = 0;
  uint64_t nap_ns_ = 10'000;
};

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_WAIT_H_

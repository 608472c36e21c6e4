// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/gpu/gpu_team.h"

namespace sl::gpu_test {

// A rank's buffers on its GPU.
class Arena {
 public:
  explicit Arena(uint64_t bytes) : bytes_(bytes) { Demand(cudaMalloc(&base_, bytes), "allocate buffers"); }
  ~Arena() { Demand(cudaFree(base_), "free buffers"); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  uint8_t* Take(uint64_t bytes) {
    uint8_t* taken = static_cast<uint8_t*>(base_) + used_;
    used_ += (bytes + 255) / 256 * 256;
    if (used_ > bytes_) Demand(cudaErrorMemoryAllocation, "the cases need a larger arena");
    return taken;
  }

 private:
  void* base_ = nullptr;
  uint64_t bytes_;
  uint64_t used_ = 0;
};

}  // namespace sl::gpu_test

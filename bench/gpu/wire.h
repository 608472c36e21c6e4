// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the wire benchmark are told.
#pragma once

#include <cstdint>

namespace sl::bench {

constexpr uint32_t kMostPeers = 7;
constexpr uint32_t kWireThreads = 512;
constexpr uint32_t kPipeBytes = 41088;  // of shared memory, for what one thread copies in bulk

// What a block does with every peer's buffer: a share of it, `bytes` in all blocks together.
struct WireArgs {
  uint8_t* peer[kMostPeers];  // beginning behind this GPU
  uint8_t* own;               // as many buffers, one behind the other
  uint32_t peers;
  uint64_t bytes;   // of one buffer
  uint32_t* drawn;  // 0; for ways that draw their work
};

}  // namespace sl::bench

// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the floor benchmark are told.
#pragma once

#include <cstdint>

namespace sl::bench {

constexpr uint32_t kMostFloorGpus = 8;

// All GPUs tell each other a number, and each goes on once it has heard of all: the least that an operation needs, as
// each must know that the others have come, and can know by its own memory alone how often they have met.
struct FloorArgs {
  uint64_t* told[kMostFloorGpus];  // of every GPU: a word for each, written by that one
  uint64_t* count;                 // of meetings, so far; this GPU's
  uint32_t gpu;
  uint32_t gpus;
  uint32_t meetings;  // in one kernel
};

}  // namespace sl::bench

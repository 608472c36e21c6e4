// SPDX-License-Identifier: Apache-2.0
//
// Kernels that do no more than they must.
#include "bench/gpu/floor.h"
#include "sdk/device/grid.h"
#include "sdk/device/sync.h"

using sl::bench::FloorArgs;

constexpr long long kPatienceCycles = 20'000'000'000;  // 10 s; another GPU has failed

extern "C" __global__ void nothing(const __grid_constant__ FloorArgs /*args*/) {
  sl::dev::AwaitEarlierGrids();
  sl::dev::LetNextGridLaunch();
}

// One warp; each of its threads deals with a GPU.
extern "C" __global__ void meet(const __grid_constant__ FloorArgs args) {
  sl::dev::AwaitEarlierGrids();
  const uint32_t other = threadIdx.x;
  uint64_t number = *args.count;
  const long long begin = clock64();
  for (uint32_t i = 0; i < args.meetings; ++i) {
    ++number;
    if (other < args.gpus && other != args.gpu) {
      sl::dev::StoreNote(args.told[other] + args.gpu, number);
      while (sl::dev::Poll(args.told[args.gpu] + other) < number) {
        if (clock64() - begin > kPatienceCycles) __trap();  // the launch fails, and the host says so
      }
    }
    __syncwarp();
  }
  if (other == 0) *args.count = number;
  sl::dev::LetNextGridLaunch();
}

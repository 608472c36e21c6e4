// SPDX-License-Identifier: Apache-2.0
// Kernels of gpu_test.cc.
#include "modules/device-cuda/tests/gpu_kernels.h"

namespace sl::device_cuda {

extern "C" __global__ void sl_test_add(const __grid_constant__ AddArgs args) {
  if (threadIdx.x == 0) atomicAdd(args.out, args.value);
}

extern "C" __global__ void sl_test_sum_arguments(const __grid_constant__ ManyArgs args) {
  unsigned long long sum = 0;
  for (int i = threadIdx.x; i < kManyWords; i += blockDim.x) sum += args.words[i];
  atomicAdd(args.out, sum);
}

extern "C" __global__ void sl_test_shape(const __grid_constant__ ShapeArgs args) {
  extern __shared__ uint32_t shared[];
  uint32_t rank = 0;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const uint32_t last = args.shared_bytes / sizeof(uint32_t) - 1;
  if (threadIdx.x == 0) shared[last] = rank + 1;
  __syncthreads();
  if (threadIdx.x == 0) args.out[blockIdx.x] = shared[last];
}

}  // namespace sl::device_cuda

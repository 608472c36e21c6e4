// SPDX-License-Identifier: Apache-2.0
// One kernel a data type; the reduction is chosen outside of the loop.
#include "modules/device-cuda/kernels/reduce.h"

#define SL_REDUCE_KERNEL(type, name)                                                                                 \
  extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ sl::device_cuda::ReduceArgs args) { \
    sl::device_cuda::RunReduction<sl::dev::FormatOf<type>>(args, blockIdx.x * uint64_t{blockDim.x} + threadIdx.x,    \
                                                           uint64_t{gridDim.x} * blockDim.x);                        \
  }
SL_REDUCE_KERNELS(SL_REDUCE_KERNEL)

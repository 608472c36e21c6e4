// SPDX-License-Identifier: Apache-2.0
//
// Arguments of the kernels that gpu_test.cc launches; each kernel takes one of these by value.
#ifndef STARLING_MODULES_DEVICE_CUDA_TESTS_GPU_KERNELS_H_
#define STARLING_MODULES_DEVICE_CUDA_TESTS_GPU_KERNELS_H_

#include <cstdint>

namespace sl::device_cuda {

// Adds `value` to *out, once a block.
struct AddArgs {
  unsigned long long* out;
  unsigned long long value;
};

// Sums the words of the arguments themselves: as many as one launch takes.
constexpr int kManyWords = (32764 - 12) / 4;
struct ManyArgs {
  unsigned long long* out;
  uint32_t words[kManyWords];
};

// Every block writes its rank in its cluster, through `shared_bytes` of dynamic shared memory.
struct ShapeArgs {
  uint32_t* out;
  uint32_t shared_bytes;
};

}  // namespace sl::device_cuda

#endif  // STARLING_MODULES_DEVICE_CUDA_TESTS_GPU_KERNELS_H_

// SPDX-License-Identifier: Apache-2.0
//
// How benches of machines deal with what CUDA refuses.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace sl::bench {

// Ends the process, with exit code 1, and says what failed: other threads may wait for this one.
inline void Demand(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(status));
  std::_Exit(1);
}

}  // namespace sl::bench

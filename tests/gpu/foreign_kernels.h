// SPDX-License-Identifier: Apache-2.0
//
// Launches of launch_order_kernels.cu into the streams of a team.
#pragma once

#include "tests/gpu/gpu_team.h"

namespace sl::gpu_test {

class ForeignKernels {
 public:
  // Every rank's GPU has run each of them once afterwards: none is loaded while others wait.
  explicit ForeignKernels(GpuTeam& team);
  ~ForeignKernels();
  ForeignKernels(const ForeignKernels&) = delete;
  ForeignKernels& operator=(const ForeignKernels&) = delete;

  // A programmatic dependent launch that writes the rank's word at once, and waits for the kernel before it afterwards,
  // or never. 0 is what words hold at first.
  void RunAtOnce(uint32_t r, uint32_t value, bool waits);
  // Holds up the rank's stream; an ordinary launch.
  void HoldUp(uint32_t r, uint32_t ns);
  uint32_t word(uint32_t r) const;
  void ClearWord(uint32_t r) const;

 private:
  void Launch(uint32_t r, cudaKernel_t kernel, void** parameters, bool depends);

  GpuTeam& team_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t run_at_once_ = nullptr;
  cudaKernel_t hold_up_ = nullptr;
  uint32_t* words_ = nullptr;  // pinned; one for each rank
};

}  // namespace sl::gpu_test

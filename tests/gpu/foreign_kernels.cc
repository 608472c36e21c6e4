// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/foreign_kernels.h"

#include <atomic>

extern "C" {
extern const unsigned char sl_image_launch_order_kernels[];
extern const uint64_t sl_image_launch_order_kernels_size;
}

namespace sl::gpu_test {

namespace {
constexpr uint32_t kApart = 64;  // words from one rank's to the next one's
}

ForeignKernels::ForeignKernels(GpuTeam& team) : team_(team) {
  Demand(cudaLibraryLoadData(&library_, sl_image_launch_order_kernels, nullptr, nullptr, 0, nullptr, nullptr, 0),
         "load the test's kernels");
  Demand(cudaLibraryGetKernel(&run_at_once_, library_, "run_at_once"), "find a kernel");
  Demand(cudaLibraryGetKernel(&hold_up_, library_, "hold_up"), "find a kernel");
  void* words = nullptr;
  Demand(cudaHostAlloc(&words, team.size() * kApart * sizeof(uint32_t), cudaHostAllocPortable | cudaHostAllocMapped),
         "pin memory");
  words_ = static_cast<uint32_t*>(words);
  for (uint32_t r = 0; r < team.size(); ++r) {
    Demand(cudaSetDevice(team[r].device), "set device");
    RunAtOnce(r, 0, true);
    HoldUp(r, 1);
    Demand(cudaStreamSynchronize(team[r].stream), "run the test's kernels");
  }
}

ForeignKernels::~ForeignKernels() {
  Demand(cudaFreeHost(words_), "free pinned memory");
  Demand(cudaLibraryUnload(library_), "unload the test's kernels");
}

void ForeignKernels::RunAtOnce(uint32_t r, uint32_t value, bool waits) {
  uint32_t* word = words_ + r * kApart;
  uint32_t waits_too = waits ? 1 : 0;
  void* parameters[] = {&word, &value, &waits_too};
  Launch(r, run_at_once_, parameters, true);
}

void ForeignKernels::HoldUp(uint32_t r, uint32_t ns) {
  void* parameters[] = {&ns};
  Launch(r, hold_up_, parameters, false);
}

void ForeignKernels::Launch(uint32_t r, cudaKernel_t kernel, void** parameters, bool depends) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = team_[r].stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = depends && team_[r].can_depend ? 1 : 0;
  Demand(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters), "launch the test's kernel");
}

uint32_t ForeignKernels::word(uint32_t r) const {
  return std::atomic_ref<uint32_t>(words_[r * kApart]).load(std::memory_order_acquire);
}

void ForeignKernels::ClearWord(uint32_t r) const {
  std::atomic_ref<uint32_t>(words_[r * kApart]).store(0, std::memory_order_release);
}

}  // namespace sl::gpu_test

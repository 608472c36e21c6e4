// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the relay share: ranks over the driver of device-cuda's tests, which counts its calls.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/gpu/gpu_buffers.h"
#include "tests/integration/team.h"

namespace sl::gpu {

constexpr double kPatience = 20;
// Of relayed_shm.toml: an eighth of comm.relay_bytes.
constexpr size_t kRelayPieceBytes = 32768;
constexpr size_t kRelaySlots = 4;

inline void UseMyGpu(int rank) {
  ASSERT_EQ(OpenCuda(), "") << "these tests need the driver of device-cuda's tests";
  UseDevice(rank % DeviceCount());
}

inline uint64_t CallsOf(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto calls = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(driver, "sl_fake_cuda_calls"));
  return calls != nullptr ? calls(name) : 0;
}

}  // namespace sl::gpu

// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the relay share: ranks over the driver of device-cuda's tests, which counts its calls.
#pragma once

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

}  // namespace sl::gpu

// SPDX-License-Identifier: Apache-2.0
//
// What ranks of a GpuTeam have in place of a GPU: a device whose memory is the host's, and reach of it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "sl_algorithm.h"
#include "sl_device.h"

namespace sl::algo_symmetric {

// How a rank's memory is reached where all ranks are threads: at its own address, unless this rank refuses.
struct FakeReach {
  uint32_t size = 0;
  uint32_t refuses_every = 0;  // n: every n-th time; 0: never
  uint32_t asked = 0;
};
inline sl_status_t FakeAddresses(sl_reach_t* reach, const void* memory, uint64_t /*bytes*/, uint64_t /*capture*/,
                                 uint64_t* out_addresses) {
  auto* fake = reinterpret_cast<FakeReach*>(reach);
  ++fake->asked;
  if (fake->refuses_every != 0 && fake->asked % fake->refuses_every == 0) return SL_ERR_UNSUPPORTED;
  for (uint32_t r = 0; r < fake->size; ++r) out_addresses[r] = reinterpret_cast<uintptr_t>(memory);
  return SL_OK;
}
inline constexpr sl_reach_ops_t kFakeReachOps = {sizeof(sl_reach_ops_t), 0, FakeAddresses};

// The part of a device that counters are wound with: its memory is the host's.
inline sl_status_t FakeStream(sl_device_t*, sl_stream_t** out) {
  *out = nullptr;
  return SL_OK;
}
inline sl_status_t FakeCopy(sl_device_t*, sl_stream_t*, void* to, const void* from, uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return SL_OK;
}
// An image is known by the names of its kernels.
inline sl_status_t FakeLoad(sl_device_t*, const sl_image_desc_t* image, sl_image_t** out) {
  *out = reinterpret_cast<sl_image_t*>(const_cast<const char**>(image->kernel_names));
  return SL_OK;
}
inline std::string KernelOf(const sl_launch_t& launch) {
  return reinterpret_cast<const char* const*>(launch.image)[launch.kernel];
}
inline constexpr sl_device_ops_t kFakeDeviceOps = [] {
  sl_device_ops_t ops{};
  ops.stream_create = FakeStream;
  ops.stream_destroy = [](sl_device_t*, sl_stream_t*) { return SL_OK; };
  ops.stream_wait_idle = [](sl_device_t*, sl_stream_t*, uint64_t) { return SL_OK; };
  ops.copy = FakeCopy;
  ops.image_load = FakeLoad;
  ops.image_unload = [](sl_device_t*, sl_image_t*) { return SL_OK; };
  return ops;
}();

}  // namespace sl::algo_symmetric

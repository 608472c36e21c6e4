// SPDX-License-Identifier: Apache-2.0
//
// What a rank says of itself when it joins a communicator.
#pragma once

#include <cstdint>
#include <string>

#include "kernel/comm/processor_bounds.h"

namespace sl::kernel {

struct Device;

// How a rank joins, besides the rendezvous.
struct CommConfig {
  const Device* device = nullptr;  // of this rank; lives as long as the process
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t timeout_ns = 0;
  std::string name;
  ProcessorBounds bounds;  // that this rank asks for; the profile's come on top
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// What a rank of a communicator has for its runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernel/link/link.h"
#include "sl_device.h"

namespace sl::kernel {

// Ranks need not order replays and eager runs alike: captures have so many sets of lanes behind those of plans, in
// turn.
inline constexpr uint32_t kGraphLaneSets = 2;

// What all runs of one rank of a communicator share; lives as long as the pool.
struct RunContext {
  uint32_t rank = 0;
  uint32_t size = 1;
  uint64_t comm_id = 0;
  uint32_t lanes = 1;  // that links have for plans
  LinkProvider* links = nullptr;
  const sl_device_ops_t* device_ops = nullptr;  // for reduce_function()
  sl_device_t* device = nullptr;
  std::function<std::string(uint32_t tag)> algorithm_name = {};  // for errors
};

}  // namespace sl::kernel

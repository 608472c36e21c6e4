// SPDX-License-Identifier: Apache-2.0
//
// The waits of host kernels and plans, as their driver tells of them.
#pragma once

#include <cstdint>

#include "sl_device.h"

namespace sl::kernel {

// Called while a launch waits (sl_launch_t::check), with the Pending of its operation: decides whether waiting still
// makes sense (judge.h).
sl_status_t CheckWait(void* pending, const sl_wait_t* wait, uint64_t waited_ns);

}  // namespace sl::kernel

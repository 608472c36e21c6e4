// SPDX-License-Identifier: Apache-2.0
//
// Counts what the calling thread allocates with new. A test that uses it replaces the global operators.
#pragma once

#include <cstdint>

namespace sl::kernel {

uint64_t AllocationCount();

}  // namespace sl::kernel

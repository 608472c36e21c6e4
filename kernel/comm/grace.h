// SPDX-License-Identifier: Apache-2.0
//
// How long ranks may go on after another rank was lost, or has ended.
#pragma once

#include <cstdint>

namespace sl::kernel {

// A wait that can still end on what that rank left behind ends well within this.
constexpr uint64_t kGraceNs = 100'000'000;

}  // namespace sl::kernel

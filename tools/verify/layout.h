// SPDX-License-Identifier: Apache-2.0
//
// How ranks are placed on hosts in a proof.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/status.h"

namespace sl::verify {

// The host of each rank, from the words of `starling verify --hosts`:
//   2        2 hosts, neighbouring ranks together, as even as can be
//   2:cyclic 2 hosts, dealt out in turn
//   3+1+4    hosts of so many ranks, neighbouring ranks together
// returns: INVALID with what is wrong, such as fewer ranks than hosts or sizes that make another number of ranks
Result<std::vector<uint32_t>> HostsOf(const std::string& words, uint32_t ranks);

}  // namespace sl::verify

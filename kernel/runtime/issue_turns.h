// SPDX-License-Identifier: Apache-2.0
//
// In which order one thread fills several queues of devices. Pure.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace sl::kernel {

// `queues`: the queue of each item. By turns: the first item of every queue, in the order given, then the second of
// every queue, and so on.   returns: the places of the items
std::pmr::vector<uint32_t> ByTurns(const std::pmr::vector<uint32_t>& queues);

}  // namespace sl::kernel

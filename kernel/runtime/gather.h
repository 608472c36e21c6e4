// SPDX-License-Identifier: Apache-2.0
//
// Ranks of one communicator that one thread has in a group. Their n-th collectives are issued beside each other, in the
// order in which the thread called any rank's first, and so are their messages, which come last. Else, where
// communicators share streams, one rank could wait in the first for another that waits for it in the second, though the
// thread may call a group's communicators in another order for each rank. Pure.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace sl::kernel {

// One operation of a group.
struct Called {
  uint32_t member;  // its rank's place in the group
  bool is_collective;
};

// Whether ranks of several communicators are in a group, more than one of some. `communicators`: the id of each
// member's.
bool IsGathered(const std::pmr::vector<uint64_t>& communicators);
// The places of the members, those of a communicator together.
std::pmr::vector<uint32_t> GatherMembers(const std::pmr::vector<uint64_t>& communicators);
// The places of the operations.
std::pmr::vector<uint32_t> GatherCalls(const std::pmr::vector<uint64_t>& communicators,
                                       const std::pmr::vector<Called>& calls);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives of one communicator that a device serves in one launch, or in a few where one cannot take them all
// (transfer_steps.h).
#pragma once

#include "kernel/runtime/issue_route.h"

namespace sl::kernel {

// Appends the launches of two transfers or more, which were entered (EnterTransfer) and are served by `choice`. Their
// arguments live in the memory of `items`.   returns: errors of the algorithm
Status JoinTransfers(Member* member, const Choice& choice, const std::pmr::vector<sl_op_t>& ops, Items* items);

}  // namespace sl::kernel

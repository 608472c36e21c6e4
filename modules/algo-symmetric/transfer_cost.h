// SPDX-License-Identifier: Apache-2.0
//
// How sends and receives on GPUs go, and what one costs. Pure functions of what is equal on all ranks.
#pragma once

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/kernels/p2p/p2p_args.h"

namespace sl::algo_symmetric {

// How messages go between `size` ranks. The budget is shared by the queues of a group in which everybody sends to
// everybody, each of which has one block at least: how many channels a queue has must be known at both ends, and
// neither knows which other messages go with one.
kernels::P2pWays WaysOf(const GpuSettings& settings, uint32_t size);

// Of one message between two ranks.
struct P2pCost {
  uint32_t blocks;  // at each end
  uint64_t time_ns;
};
P2pCost CostOf(const sl_op_t& op, const kernels::P2pWays& ways, uint32_t size, const GpuSettings& settings);

}  // namespace sl::algo_symmetric

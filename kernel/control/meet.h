// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a communicator meet by one id or by several. With several, each id is where a group of ranks meets,
// so that no process takes the calls of all: the ranks of a group make a control tree for the moment and tell each
// other where they are; the first ones of the groups meet at the first id, do the same, and pass on what they have
// learned.
#pragma once

#include <span>

#include "kernel/control/control_tree.h"
#include "kernel/control/join.h"

namespace sl::kernel {

struct Meeting {
  std::span<const RendezvousId> ids;  // the same on all ranks, at most as many as ranks
  uint32_t rank;
  uint32_t size;
  Extension* mine;  // under the secret of the first id; where the rank's own children will call
  uint64_t timeout_ns;
  uint64_t silence_ns;  // of hosts
  const std::atomic<uint64_t>* cancel_ns;
  // By one id: looks, 50 times a second, whether waiting has become pointless, which all others are told then.
  std::function<Status()> look = {};
};

// Where the neighbours in the control tree of all are.
// returns: SL_ERR_TIMEOUT naming who is absent | SL_ERR_MISMATCH | SL_ERR_PEER_LOST
Result<TreeNeighbours> Meet(const Meeting& meeting);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// A rank's side of a rendezvous: it comes, and waits until all have come.
#pragma once

#include <functional>

#include "kernel/control/extension.h"
#include "kernel/control/join_request.h"
#include "kernel/control/tree_shape.h"
#include "kernel/control/unique_id.h"

namespace sl::kernel {

// What a rank hears when all have come.
struct Welcome {
  uint64_t nonce = 0;  // of the communicator
  TreeNeighbours neighbours;
};

// Waits for the welcome on a stream to a rendezvous. Every 20 ms `look` may find that waiting has become pointless; the
// rendezvous hears why.
Result<Welcome> AwaitWelcome(const Stream& stream, Switchboard* switchboard, const Patience& patience,
                             const std::function<Status()>& look);

// Reports to the rendezvous of `id`; once all have come, returns where the neighbours in the control tree of those who
// meet are. `look` as above.
Result<TreeNeighbours> JoinRendezvous(const RendezvousId& id, const JoinRequest& request, Switchboard* switchboard,
                                      const Patience& patience, const std::function<Status()>& look = nullptr);

// Where the first ranks of the groups of several ids meet: beside the meeting of the first id's own group.
RendezvousId LeadersId(const RendezvousId& first);

}  // namespace sl::kernel

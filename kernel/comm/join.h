// SPDX-License-Identifier: Apache-2.0
//
// A rank's side of a rendezvous: it comes, and waits until all have come.
#pragma once

#include <functional>

#include "kernel/comm/extension.h"
#include "kernel/comm/join_request.h"
#include "kernel/comm/unique_id.h"

namespace sl::kernel {

// What a rank hears when all have come.
struct Welcome {
  Endpoint parent;     // in the control tree; zero for rank 0
  uint64_t nonce = 0;  // of the communicator
};

// Waits for the welcome on a stream to a rendezvous. Every 20 ms `look` may find that waiting has become pointless; the
// rendezvous hears why.
Result<Welcome> AwaitWelcome(int fd, Switchboard* switchboard, const Patience& patience,
                             const std::function<Status()>& look);

// Reports to the rendezvous of `id` and returns where the parent in the control tree is; for rank 0 the answer means
// only that all have come. `mine` is where the rank's own children will call.
Result<Endpoint> JoinRendezvous(const RendezvousId& id, uint32_t rank, uint32_t size, const Extension& mine,
                                const Patience& patience);

}  // namespace sl::kernel

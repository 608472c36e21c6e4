// SPDX-License-Identifier: Apache-2.0
//
// Ids that are no more than an address (comm.rendezvous): every rank can make such an id by itself. Behind the address
// stands rank 0, for as long as ranks are awaited, and gives each of them the id by which they meet. The secret of such
// an id follows from the address: whoever reaches it may join.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "kernel/control/switchboard.h"
#include "kernel/control/unique_id.h"

namespace sl::kernel {

// The id of "192.0.2.1:4711", "[fd00::1]:4711" or "name:4711". Resolves names, so it may block.
// returns: SL_ERR_CONFIG with what to write instead
Result<RendezvousId> IdOfAddress(const std::string& host_and_port);
bool IsAddressOnly(const RendezvousId& id);

class IdDesk {
 public:
  // Rank 0's: listens at the address of `asked` and gives every other rank `given`, once. `choice` as the process's
  // own. returns: SL_ERR_CONFIG no address of this host, or in use
  static Result<std::unique_ptr<IdDesk>> Open(ControlThread* control, NetChoice choice, const RendezvousId& asked,
                                              const RendezvousId& given);
  IdDesk(const IdDesk&) = delete;
  IdDesk& operator=(const IdDesk&) = delete;

 private:
  IdDesk(ControlThread* control, const NetChoice& choice) : switchboard_(control, choice) {}
  void Give(const RendezvousId& id, const Switchboard::Caller& caller);

  std::set<uint32_t> served_;  // ranks; control thread only
  Switchboard switchboard_;    // destroyed first: no handler runs any more
};

// The other ranks': asks until somebody answers. Rank 0 may come later.
// returns: SL_ERR_TIMEOUT with what was tried | SL_ERR_ABORTED | SL_ERR_MISMATCH
Result<RendezvousId> FetchId(const RendezvousId& asked, uint32_t rank, const Switchboard& switchboard,
                             const Patience& patience);

}  // namespace sl::kernel

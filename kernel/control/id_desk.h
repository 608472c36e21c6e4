// SPDX-License-Identifier: Apache-2.0
//
// Ids that are no more than an address (comm.rendezvous): every rank can make such an id by itself. Behind the address
// stands rank 0, for as long as ranks are awaited, and gives each of them the id by which they meet. The secret of such
// an id follows from the address: whoever reaches it may join.
//
// The same address serves one communicator after the other. A rank that has met and asks again wants the next id, while
// a rank whose answer was lost wants the same one. The desk cannot tell them apart, and strangers could spoil anything
// that it remembered of ranks. So a rank says which id it is through with, and the desk gives it any other. The desk
// keeps nothing, a rank may ask as often as it likes, and nobody can ask in its place.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernel/control/switchboard.h"
#include "kernel/control/unique_id.h"

namespace sl::kernel {

// The id of "192.0.2.1:4711", "[fd00::1]:4711" or "name:4711". Resolves names, so it may block.
// returns: SL_ERR_CONFIG with what to write instead
Result<RendezvousId> IdOfAddress(const std::string& host_and_port);
bool IsAddressOnly(const RendezvousId& id);

// The ids of desks that the ranks of this process are through with.   thread: [any]
class SpentIds {
 public:
  // All ranks have met by this id, which the desk at `asked` gave: it is of no use to any of them any more.
  void AddMet(const RendezvousId& asked, uint64_t nonce);
  // This rank has failed to meet by it; others of this process may still have to hear why.
  void AddFailed(const RendezvousId& asked, uint32_t rank, uint64_t nonce);
  // The nonce of the newest for that rank; 0: none. Older ones are given by no desk any more: there is one at a time.
  uint64_t Newest(const RendezvousId& asked, uint32_t rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> met_;                          // by address; guarded by mutex_
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> failed_;  // by address and rank, since the last that met; the same
};

class IdDesk {
 public:
  // Rank 0's: listens at the address of `asked` and gives `given` to every rank that is not through with it. `choice`
  // as the process's own.   returns: SL_ERR_CONFIG no address of this host, or in use
  static Result<std::unique_ptr<IdDesk>> Open(ControlThread* control, NetChoice choice, const RendezvousId& asked,
                                              const RendezvousId& given);
  IdDesk(const IdDesk&) = delete;
  IdDesk& operator=(const IdDesk&) = delete;

 private:
  IdDesk(ControlThread* control, const NetChoice& choice) : switchboard_(control, choice) {}
  static void Give(const RendezvousId& id, const Switchboard::Caller& caller);

  Switchboard switchboard_;
};

// The other ranks': asks until somebody gives another id than that of nonce `spent`. Rank 0 may come later.
// returns: SL_ERR_TIMEOUT with what was tried | SL_ERR_ABORTED | SL_ERR_MISMATCH
Result<RendezvousId> FetchId(const RendezvousId& asked, uint32_t rank, uint64_t spent, const Switchboard& switchboard,
                             const Patience& patience);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// What all ranks of a communicator have told each other at the start. The ranks of one process share it, so that memory
// and time per rank do not grow with the number of ranks.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/comm/card.h"
#include "kernel/control/contributions.h"
#include "kernel/link/route.h"

namespace sl::kernel {

class Roster {
 public:
  // From the cards of all ranks.
  static Result<std::shared_ptr<const Roster>> Read(const Contributions& cards);

  // Without addresses of transports: those are `PeersOf`.
  const std::vector<Card>& cards() const { return cards_; }
  // "rank 3 (process 4711)", and where that is if it is known.
  std::string NameOf(uint32_t rank) const;
  // Ranks must agree on everything selection looks at, or they would run different algorithms.
  // returns: SL_ERR_MISMATCH what the first differs in from `rank`
  Status CheckAgreement(uint32_t rank) const;
  // All ranks lie on one host and listen with one transport, so nothing else is needed between them.
  bool MeetsWithinHost() const;
  // A text a host, by rank.
  const char* const* hosts() const { return hosts_.data(); }
  // The ranks of that rank's host, itself among them, ascending.
  std::vector<uint32_t> RanksOfHost(uint32_t rank) const { return RanksOf(&Card::host, rank); }
  // "; ranks 4, 5 are on that host, too"; empty when there are no others.
  std::string OthersOfHostText(uint32_t rank) const;
  // Which ranks are of that rank's process.
  std::vector<bool> SharesProcess(uint32_t rank) const;
  // Of how many ranks, itself among them, that rank's device reaches the memory by loads and stores; groups of so many
  // ranks are kept apart, 0: none are.
  uint32_t DomainSize(uint32_t rank, uint64_t group) const;
  // Those of that rank's host.
  uint32_t HostProcessors(uint32_t rank) const { return ProcessorsOf(RanksOfHost(rank)); }
  // More ranks run on that rank's machine, be it in several containers, than it has processors for them.
  bool IsCrowded(uint32_t rank) const;
  // What all ranks agree on, whatever each of them asks for: selection and grids must be equal everywhere. The least
  // bounds of all, and the greatest weight; `least` is not above `most`.
  ProcessorBounds AgreedBounds() const;
  // Where the ranks listen with that transport. Shares the ownership of `roster`.
  static std::shared_ptr<const LinkPeers> PeersOf(const std::shared_ptr<const Roster>& roster, const std::string& name);

 private:
  Roster() = default;
  std::vector<uint32_t> RanksOf(HostId Card::*place, uint32_t rank) const;
  uint32_t ProcessorsOf(const std::vector<uint32_t>& ranks) const;

  std::vector<Card> cards_;
  std::vector<std::string> host_texts_;
  std::vector<const char*> hosts_;  // of host_texts_
  std::map<std::string, LinkPeers> peers_;
};

// The rosters of a process that are in use, by the nonce of their communicator.
class RosterShelf {
 public:
  // The first rank that asks reads the cards, the others take what it has read; `cards` is the same for all.   [any]
  // shared_ptr: ranks of one communicator end in any order, and the last one lets go.
  Result<std::shared_ptr<const Roster>> Take(uint64_t nonce, const Contributions& cards);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<const Roster>> rosters_;  // guarded by mutex_
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/roster.h"

#include <algorithm>

namespace sl::kernel {

Result<std::shared_ptr<const Roster>> Roster::Read(const Contributions& cards) {
  std::shared_ptr<Roster> roster(new Roster);
  roster->cards_.reserve(cards.size());
  roster->host_texts_.reserve(cards.size());  // hosts_ points into it
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    SL_ASSIGN(Card card, Card::Decode(cards[rank]));
    for (auto& [name, ports] : card.addresses) {
      LinkPeers& peers = roster->peers_[name];
      peers.resize(cards.size());
      peers[rank] = std::move(ports);
    }
    card.addresses = {};
    roster->host_texts_.push_back(ToText(card.host));
    roster->hosts_.push_back(roster->host_texts_.back().c_str());
    roster->cards_.push_back(std::move(card));
  }
  return std::shared_ptr<const Roster>(std::move(roster));
}

bool Roster::MeetsWithinHost() const {
  const auto is_here = [this](const Card& card) { return card.host == cards_[0].host; };
  const auto hears = [](const LinkAddress& port) { return port.address.bytes != 0; };
  const auto listens = [&](const std::vector<LinkAddress>& ports) {
    return std::any_of(ports.begin(), ports.end(), hears);
  };
  const auto serves_all = [&](const auto& peers) {
    return std::all_of(peers.second.begin(), peers.second.end(), listens);
  };
  return std::all_of(cards_.begin(), cards_.end(), is_here) &&
         (cards_.size() == 1 || std::any_of(peers_.begin(), peers_.end(), serves_all));
}

// Ranks may be bound to CPUs of their own: together they have all of them.
bool Roster::IsCrowded(uint32_t rank) const {
  CpuSet cpus{};
  uint32_t ranks = 0;
  for (const Card& card : cards_) {
    if (card.machine != cards_[rank].machine) continue;
    ++ranks;
    for (size_t i = 0; i < cpus.size(); ++i) cpus[i] |= card.cpus[i];
  }
  return ranks > CountProcessors(cpus);
}

ProcessorBounds Roster::AgreedBounds() const {
  ProcessorBounds agreed = cards_[0].bounds;
  for (const Card& card : cards_) agreed = Agreed(agreed, card.bounds);
  if (agreed.most != 0) agreed.least = std::min(agreed.least, agreed.most);
  return agreed;
}

std::shared_ptr<const LinkPeers> Roster::PeersOf(const std::shared_ptr<const Roster>& roster, const std::string& name) {
  const auto found = roster->peers_.find(name);
  if (found == roster->peers_.end()) return std::make_shared<LinkPeers>(roster->cards_.size());
  return {roster, &found->second};
}

Result<std::shared_ptr<const Roster>> RosterShelf::Take(uint64_t nonce, const Contributions& cards) {
  std::lock_guard lock(mutex_);
  std::erase_if(rosters_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = rosters_.find(nonce); found != rosters_.end()) {
    if (std::shared_ptr<const Roster> known = found->second.lock()) return known;
  }
  SL_ASSIGN(std::shared_ptr<const Roster> read, Roster::Read(cards));
  rosters_[nonce] = read;
  return read;
}

}  // namespace sl::kernel

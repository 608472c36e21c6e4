// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/roster.h"

#include <algorithm>

#include "kernel/profile/settings.h"

namespace sl::kernel {
namespace {

std::string DeviceKindName(uint32_t kind) {
  return kind < kDeviceKindNames.size() ? kDeviceKindNames[kind] : std::to_string(kind);
}

}  // namespace

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

std::string Roster::NameOf(uint32_t rank) const {
  return "rank " + std::to_string(rank) + " (" + ToText(cards_[rank].endpoint) + ")";
}

Status Roster::CheckAgreement(uint32_t rank) const {
  const Card& mine = cards_[rank];
  const std::string my_name = "rank " + std::to_string(rank);
  for (uint32_t other = 0; other < cards_.size(); ++other) {
    const Card& card = cards_[other];
    if (card.version != mine.version) {
      return {SL_ERR_MISMATCH, NameOf(other) + " runs starling " + card.version + ", " + my_name + " runs " +
                                   mine.version + "; install one version on all hosts"};
    }
    if (card.device_kind != mine.device_kind) {
      return {SL_ERR_MISMATCH, NameOf(other) + " is on a device of kind " + DeviceKindName(card.device_kind) + ", " +
                                   my_name + " of kind " + DeviceKindName(mine.device_kind) +
                                   "; select a GPU before the communicator is made (cudaSetDevice), is one hidden from "
                                   "it (CUDA_VISIBLE_DEVICES)? Or choose for all by roles.device of the profile"};
    }
    if (card.settings_hash != mine.settings_hash) {
      return {SL_ERR_MISMATCH, NameOf(other) + " has another effective profile (" + card.profile + ") than " + my_name +
                                   " (" + mine.profile + "); compare `starling profile show` on both"};
    }
  }
  return {};
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

std::vector<uint32_t> Roster::RanksOf(HostId Card::*place, uint32_t rank) const {
  std::vector<uint32_t> ranks;
  for (uint32_t other = 0; other < cards_.size(); ++other) {
    if (cards_[other].*place == cards_[rank].*place) ranks.push_back(other);
  }
  return ranks;
}

// Ranks may be bound to CPUs of their own: together they have all of them.
uint32_t Roster::ProcessorsOf(const std::vector<uint32_t>& ranks) const {
  CpuSet cpus{};
  for (const uint32_t rank : ranks) {
    for (size_t i = 0; i < cpus.size(); ++i) cpus[i] |= cards_[rank].cpus[i];
  }
  return CountProcessors(cpus);
}

bool Roster::IsCrowded(uint32_t rank) const {
  const std::vector<uint32_t> ranks = RanksOf(&Card::machine, rank);
  return ranks.size() > ProcessorsOf(ranks);
}

std::string Roster::OthersOfHostText(uint32_t rank) const {
  constexpr size_t kMaxNamed = 7;
  std::vector<uint32_t> others = RanksOfHost(rank);
  std::erase(others, rank);
  if (others.empty()) return "";
  std::string names;
  for (size_t i = 0; i < std::min(others.size(), kMaxNamed); ++i) {
    names += (i == 0 ? "" : ", ") + std::to_string(others[i]);
  }
  if (others.size() > kMaxNamed) names += " and " + std::to_string(others.size() - kMaxNamed) + " more";
  return (others.size() == 1 ? "; rank " + names + " is" : "; ranks " + names + " are") + " on that host, too";
}

std::vector<bool> Roster::SharesProcess(uint32_t rank) const {
  const Endpoint& own = cards_[rank].endpoint;
  std::vector<bool> shares;
  for (const Card& card : cards_) {
    shares.push_back(card.endpoint.space == own.space && card.endpoint.local == own.local);
  }
  return shares;
}

uint32_t Roster::DomainSize(uint32_t rank, uint64_t group) const {
  const Card& own = cards_[rank];
  uint32_t size = 0;
  for (uint32_t other = 0; other < cards_.size(); ++other) {
    const Card& card = cards_[other];
    size += card.host == own.host && card.device_kind == own.device_kind && card.domain == own.domain &&
            card.clique == own.clique && (group == 0 || other / group == rank / group);
  }
  return size;
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

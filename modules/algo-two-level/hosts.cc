// SPDX-License-Identifier: Apache-2.0
#include "hosts.h"

#include <algorithm>
#include <map>
#include <string>

#include "sdk/plan_cut.h"

namespace sl::algo_two_level {

Hosts Hosts::Of(const sl_comm_shape_t& shape) {
  Hosts hosts;
  hosts.rank = shape.rank;
  hosts.size = shape.size;
  std::map<std::string, uint32_t> numbers;
  for (uint32_t rank = 0; rank < shape.size; ++rank) {
    const std::string name = shape.host_of == nullptr ? "" : shape.host_of[rank];
    const auto [found, fresh] = numbers.emplace(name, static_cast<uint32_t>(numbers.size()));
    if (fresh) hosts.members.emplace_back();
    std::vector<uint32_t>& members = hosts.members[found->second];
    hosts.host_of.push_back(found->second);
    hosts.index_of.push_back(static_cast<uint32_t>(members.size()));
    members.push_back(rank);
  }
  hosts.shards = shape.size;
  for (const auto& members : hosts.members)
    hosts.shards = std::min(hosts.shards, static_cast<uint32_t>(members.size()));
  return hosts;
}

uint32_t Hosts::most() const {
  size_t most = 0;
  for (const auto& of_host : members) most = std::max(most, of_host.size());
  return static_cast<uint32_t>(most);
}

std::vector<uint32_t> Hosts::CarriedBy(uint32_t index) const {
  std::vector<uint32_t> carried;
  for (uint32_t i = 1; i < count(); ++i) {
    const std::vector<uint32_t>& theirs = members[HostAfter(host(), i)];
    for (size_t at = index; at < theirs.size(); at += members[host()].size()) carried.push_back(theirs[at]);
  }
  carried.push_back(members[host()][index]);
  return carried;
}

// The first member of the smallest host is the like of one rank of every host, and of more where that has more.
uint32_t Hosts::LongestBundle() const {
  uint32_t longest = 0;
  for (const auto& theirs : members) longest += static_cast<uint32_t>(DivideUp(theirs.size(), shards));
  return std::max(longest, most());
}

std::vector<uint32_t> Hosts::Others() const {
  const std::vector<uint32_t>& own = members[host()];
  std::vector<uint32_t> others;
  for (size_t i = 1; i < own.size(); ++i) others.push_back(own[(index() + i) % own.size()]);
  return others;
}

}  // namespace sl::algo_two_level

// SPDX-License-Identifier: Apache-2.0
//
// How ranks lie on hosts, as the two levels see it. Hosts are numbered by their lowest rank; ranks of a host need not
// follow each other, and hosts need not have equally many.
#pragma once

#include <cstdint>
#include <vector>

#include "sl_algorithm.h"

namespace sl::algo_two_level {

struct Hosts {
  uint32_t rank = 0;
  uint32_t size = 0;
  std::vector<std::vector<uint32_t>> members;  // of each host, ascending
  std::vector<uint32_t> host_of;               // by rank
  std::vector<uint32_t> index_of;              // by rank: its place among the members of its host
  uint32_t shards = 0;  // as many as the smallest host has members: ranks that talk to other hosts

  static Hosts Of(const sl_comm_shape_t& shape);

  uint32_t count() const { return static_cast<uint32_t>(members.size()); }
  uint32_t host() const { return host_of[rank]; }
  uint32_t index() const { return index_of[rank]; }
  bool owns() const { return index() < shards; }
  uint32_t most() const;  // members of the largest host
  // The rank of a host that carries a shard across, and the shard that a rank's own block belongs to.
  uint32_t Owner(uint32_t host, uint32_t shard) const { return members[host][shard]; }
  uint32_t ShardOf(uint32_t its_rank) const { return index_of[its_rank] % shards; }
  // `distance` hosts further round.
  uint32_t HostAfter(uint32_t host, uint32_t distance) const { return (host + distance) % count(); }
  // The rank of a host that exchanges with `its_rank` of another one what all its ranks have for that one.
  uint32_t LikeOn(uint32_t host, uint32_t its_rank) const {
    return members[host][index_of[its_rank] % members[host].size()];
  }
  // The ranks whose like on this host is the member at `index`, the nearest host first, and that member itself, last.
  std::vector<uint32_t> CarriedBy(uint32_t index) const;
  // Blocks of the longest bundle: of a whole host, or of all that the like of most ranks carries.
  uint32_t LongestBundle() const;
  // The other members of this rank's host, from the next one round.
  std::vector<uint32_t> Others() const;
};

}  // namespace sl::algo_two_level

// SPDX-License-Identifier: Apache-2.0
#include "cost.h"

#include <algorithm>

namespace sl::algo_ring {

CostModel::CostModel(const Shape& shape, const LinkCost& cost) {
  const double local = 1e9 / static_cast<double>(cost.bytes_per_second);
  if (shape.one_host) {
    hop_ns_ = cost.latency_ns;
    message_ns_ = kMessageNs;
    message_ns_all_pairs_ = kMessageNs;
    ns_per_byte_ = local;
    ns_per_byte_all_pairs_ = local;
    return;
  }
  // The slowest hop sets the pace, and a host's ranks share its network when all of them use it at once.
  const double network = 1e9 / static_cast<double>(cost.network_bytes_per_second);
  hop_ns_ = cost.network_latency_ns;
  message_ns_ = cost.network_message_ns;
  // Of all its peers some are on a rank's own host.
  const uint64_t far = shape.size - shape.ranks_per_host;
  message_ns_all_pairs_ = ((shape.ranks_per_host - 1) * kMessageNs + far * cost.network_message_ns) / (shape.size - 1);
  ns_per_byte_ = std::max(local, network);
  ns_per_byte_all_pairs_ = std::max(local, network * shape.ranks_per_host);
}

uint64_t CostModel::Time(const Work& work) const {
  const double moving = work.bytes * (work.all_pairs ? ns_per_byte_all_pairs_ : ns_per_byte_);
  const uint64_t handling = work.messages * (work.all_pairs ? message_ns_all_pairs_ : message_ns_);
  return work.hops * hop_ns_ + handling + static_cast<uint64_t>(moving);
}

}  // namespace sl::algo_ring

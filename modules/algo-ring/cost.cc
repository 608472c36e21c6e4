// SPDX-License-Identifier: Apache-2.0
#include "cost.h"

#include <algorithm>

namespace sl::algo_ring {

CostModel::CostModel(const Shape& shape, const CostOptions& options) {
  const double local = 1e9 / static_cast<double>(options.bytes_per_second);
  if (shape.one_host) {
    hop_ns_ = options.latency_ns;
    ns_per_byte_ = local;
    ns_per_byte_all_pairs_ = local;
    return;
  }
  // The slowest hop sets the pace, and a host's ranks share its network when all of them use it at once.
  const double network = 1e9 / static_cast<double>(options.network_bytes_per_second);
  hop_ns_ = options.network_latency_ns;
  ns_per_byte_ = std::max(local, network);
  ns_per_byte_all_pairs_ = std::max(local, network * shape.ranks_per_host);
}

uint64_t CostModel::Time(const Work& work) const {
  const double moving = work.bytes * (work.all_pairs ? ns_per_byte_all_pairs_ : ns_per_byte_);
  return work.hops * hop_ns_ + work.messages * kMessageNs + static_cast<uint64_t>(moving);
}

}  // namespace sl::algo_ring

// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/route.h"

#include <algorithm>

namespace sl::kernel {
namespace {

// Ports of the same number are taken for rails of one network, so that all are used before any is used twice; where
// no numbers agree, one pair serves.
std::vector<std::pair<uint32_t, uint32_t>> PortsTo(const LinkTransport& transport, uint32_t peer) {
  std::vector<std::pair<uint32_t, uint32_t>> ports;
  if (peer >= transport.peers->size()) return ports;
  const std::vector<LinkAddress>& remote = transport.peers->at(peer);
  const size_t locals = transport.fabrics.size();
  const size_t remotes = remote.size();
  if (locals == 0 || remotes == 0) return ports;
  const auto add_if_reached = [&](size_t i, size_t j) {
    if (remote[j].address.bytes != 0 && remote[j].fabric == transport.fabrics[i]) ports.emplace_back(i, j);
  };
  for (size_t k = 0; k < std::max(locals, remotes); ++k) add_if_reached(k % locals, k % remotes);
  for (size_t k = 0; ports.empty() && k < locals * remotes; ++k) add_if_reached(k / remotes, k % remotes);
  return ports;
}

}  // namespace

Route FindRoute(const std::vector<LinkTransport>& transports, uint32_t peer) {
  for (uint32_t i = 0; i < transports.size(); ++i) {
    Route route{i, PortsTo(transports[i], peer)};
    if (!route.ports.empty()) return route;
  }
  return {};
}

}  // namespace sl::kernel

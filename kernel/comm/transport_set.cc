// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/transport_set.h"

#include <algorithm>

#include "kernel/comm/card.h"
#include "kernel/comm/roster.h"
#include "kernel/events/last_error.h"
#include "kernel/events/log.h"

namespace sl::kernel {

TransportSet::TransportSet(OfferedTransports* offered, const sl_transport_env_t& env) : offered_(offered), env_(env) {
  std::copy_n(env.host_id, host_.size(), host_.begin());
}

TransportSet::~TransportSet() {
  for (const Transport& transport : transports_) transport.ops->close(transport.handle);
}

Status TransportSet::Listen(bool networks) {
  for (size_t i = 0; i < offered_->all.size(); ++i) Open(i, networks);
  // Memory before networks: a peer is reached over the quickest that can. All ranks have the same modules.
  std::stable_sort(transports_.begin(), transports_.end(),
                   [](const Transport& a, const Transport& b) { return a.latency_ns < b.latency_ns; });
  for (Transport& transport : transports_) {
    const bool serves_host = std::any_of(transport.addresses.begin(), transport.addresses.end(),
                                         [this](const LinkAddress& port) { return IsHere(port); });
    if (transport.listens || (!networks && !serves_host)) continue;
    SL_TRY(Listen(&transport));
    if (!networks) break;
  }
  return {};
}

void TransportSet::Open(size_t index, bool networks) {
  const auto& [name, module, uses_device, ops, instance, revision] = offered_->all[index];
  const auto same = [&name = name](const Transport& transport) { return transport.name == name; };
  if (std::any_of(transports_.begin(), transports_.end(), same)) return;
  if (!networks && offered_->IsNetwork(index)) return;
  uint32_t ports = 0;
  sl_transport_t* handle = nullptr;
  if (const sl_status_t status = CallModule("open", ops->open, instance, &env_, &handle); status != SL_OK) {
    // A host without a network may do well without one.
    const bool is_missed = networks || status != SL_ERR_NOT_FOUND;
    return Logf(is_missed ? SL_LOG_WARN : SL_LOG_DEBUG, "transport {} left out: {}", name, LastError());
  }
  if (ops->port_count(handle, &ports) != SL_OK || ports == 0) {
    Logf(SL_LOG_WARN, "transport {} left out: it has no port", name);
    return ops->close(handle);
  }
  Transport& transport = transports_.emplace_back(Transport{name, ops, handle, {}});
  transport.addresses.resize(std::min(ports, Card::kMaxPorts));
  bool is_network = true;
  for (uint32_t port = 0; port < transport.addresses.size(); ++port) {
    sl_port_t facts{};
    facts.struct_size = sizeof(facts);
    if (ops->port_info(handle, port, &facts) != SL_OK) continue;
    std::copy_n(facts.fabric, sizeof(facts.fabric), transport.addresses[port].fabric.begin());
    transport.latency_ns = std::min(transport.latency_ns, facts.latency_ns);
    is_network &= !IsHere(transport.addresses[port]);
  }
  if (is_network) offered_->RememberNetwork(index);
}

// One port that cannot listen, of several, costs its speed only.
Status TransportSet::Listen(Transport* transport) {
  for (uint32_t port = 0; port < transport->addresses.size(); ++port) {
    sl_address_t* address = &transport->addresses[port].address;
    if (transport->ops->listen(transport->handle, port, address) == SL_OK) {
      transport->listens = true;
      continue;
    }
    *address = {};
    Logf(SL_LOG_WARN, "transport {}: port {} cannot listen: {}", transport->name, port, LastError());
  }
  if (transport->listens) return {};
  return {SL_ERR_LIMIT, "transport " + transport->name + " cannot listen: " + LastError()};
}

std::vector<std::pair<std::string, std::vector<LinkAddress>>> TransportSet::addresses() const {
  std::vector<std::pair<std::string, std::vector<LinkAddress>>> addresses;
  for (const Transport& transport : transports_) {
    if (transport.listens) addresses.emplace_back(transport.name, transport.addresses);
  }
  return addresses;
}

void TransportSet::CloseSilent() {
  std::erase_if(transports_, [](const Transport& transport) {
    if (!transport.listens) transport.ops->close(transport.handle);
    return !transport.listens;
  });
}

std::vector<LinkTransport> TransportSet::ForLinks(const std::shared_ptr<const Roster>& roster) const {
  std::vector<LinkTransport> used;
  for (const Transport& transport : transports_) {
    LinkTransport& entry = used.emplace_back();
    entry.ops = transport.ops;
    entry.transport = transport.handle;
    entry.name = transport.name;
    for (const LinkAddress& port : transport.addresses) entry.fabrics.push_back(port.fabric);
    entry.peers = Roster::PeersOf(roster, transport.name);
  }
  return used;
}

}  // namespace sl::kernel

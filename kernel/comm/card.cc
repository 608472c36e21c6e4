// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/card.h"

#include <algorithm>

namespace sl::kernel {

Bytes Card::Encode() const {
  Writer out;
  out.Put(host);
  out.Put(process);
  out.Put(cpus);
  out.Put(device_kind);
  out.Put(domain);
  out.Put(endpoint);
  out.PutText(version);
  out.Put(settings_hash);
  out.PutText(profile);
  out.Put(static_cast<uint32_t>(addresses.size()));
  for (const auto& [name, ports] : addresses) {
    out.PutText(name);
    out.Put(static_cast<uint32_t>(ports.size()));
    for (const auto& [address, fabric] : ports) {
      out.PutBytes({address.data, address.bytes});
      out.Put(fabric);
    }
  }
  out.Put(machine);
  out.Put(clique);
  out.Put(bounds.least);
  out.Put(bounds.most);
  out.Put(bounds.weight);
  out.Put(bounds.free);
  return out.Take();
}

Result<Card> Card::Decode(std::span<const uint8_t> bytes) {
  Reader in(bytes);
  Card card;
  card.host = in.Get<HostId>();
  card.process = in.Get<uint32_t>();
  card.cpus = in.Get<CpuSet>();
  card.device_kind = in.Get<uint32_t>();
  card.domain = in.Get<std::array<uint8_t, 16>>();
  card.endpoint = in.Get<Endpoint>();
  card.version = in.GetText();
  card.settings_hash = in.Get<uint64_t>();
  card.profile = in.GetText();
  const uint32_t count = in.Get<uint32_t>();
  for (uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::string name = in.GetText();
    const uint32_t ports = in.Get<uint32_t>();
    if (ports > kMaxPorts) return Status(SL_ERR_LINK_CORRUPT, "a transport with too many ports");
    std::vector<LinkAddress> listed;
    for (uint32_t port = 0; port < ports; ++port) {
      const Bytes data = in.GetBytes();
      if (data.size() > sizeof(sl_address_t::data)) {
        return Status(SL_ERR_LINK_CORRUPT, "a transport address is too long");
      }
      auto& [address, fabric] = listed.emplace_back();
      address.bytes = static_cast<uint32_t>(data.size());
      std::copy(data.begin(), data.end(), address.data);
      fabric = in.Get<std::array<uint8_t, 16>>();
    }
    card.addresses.emplace_back(name, std::move(listed));
  }
  card.machine = in.Get<HostId>();
  card.clique = in.Get<uint32_t>();
  card.bounds.least = in.Get<uint32_t>();
  card.bounds.most = in.Get<uint32_t>();
  card.bounds.weight = in.Get<uint32_t>();
  card.bounds.free = in.Get<uint32_t>();
  if (card.bounds.weight > ProcessorBounds::kMostWeight) {
    return Status(SL_ERR_LINK_CORRUPT, "a processor that is worth more than all of an operation's time");
  }
  if (card.bounds.free > 1) return Status(SL_ERR_LINK_CORRUPT, "a wish for no processors that is neither no nor yes");
  // What follows was added by a later release; this one has no use for it.
  if (!in.ok() || !IsWellFormed(card.endpoint)) return Status(SL_ERR_LINK_CORRUPT, "a rank's card is damaged");
  return card;
}

std::span<const LinkAddress> Card::AddressesOf(const std::string& transport) const {
  for (const auto& [name, ports] : addresses) {
    if (name == transport) return ports;
  }
  return {};
}

}  // namespace sl::kernel

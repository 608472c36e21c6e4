// SPDX-License-Identifier: Apache-2.0
//
// Network interfaces of this host, and which of them become ports.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "modules/transport-tcp/wire.h"
#include "sdk/net_interface.h"
#include "sdk/status.h"

namespace sl::transport_tcp {

// One address of one interface.
struct Interface {
  std::string name;
  uint32_t index = 0;  // of the operating system; the scope of link-local addresses
  uint8_t family = 4;  // 4 or 6
  Ip ip = {};
  bool up = false;
  bool loopback = false;
  bool physical = false;             // a device stands behind it
  uint64_t megabits_per_second = 0;  // 0: it does not say
  int32_t numa_node = -1;
  std::string pci_path;

  Reach reach() const;
  std::string IpText() const;  // "192.0.2.2", "fe80::1%eth0"
};

// What may become a port.
struct InterfaceFilter {
  // Comma-separated beginnings of names; a leading '=' wants whole names, a leading '^' all but these, "^=" both.
  // Empty: physical and virtual ones but those of local bridges (docker, virbr, cni), then these, then loopback.
  std::string names;
  std::string subnets;          // comma-separated, "192.0.2.0/24,fd00::/8"; empty: any
  std::string family = "auto";  // "ipv4", "ipv6"
  uint64_t minimum_megabits_per_second = 0;
};

// What an interface that does not say is taken for, as NCCL does.
constexpr uint64_t kAssumedMegabits = 10'000;

// Equal on processes that reach each other by loopback: of the running system and the network namespace, whatever
// NCCL_HOSTID says, which makes several hosts of one.
using LoopbackId = std::array<uint8_t, 16>;
LoopbackId ReadLoopbackId();

// Every address of every interface, in the system's order.
Result<std::vector<Interface>> ListInterfaces();

// One address for each interface that passes: IPv4 before IPv6, routed before link-local. Devices come before virtual
// interfaces, fast ones before slow ones. Loopback only when it is named, or its subnet is, or nothing else is there.
// NOT_FOUND says what was there; CONFIG says which part of the filter cannot be read.
Result<std::vector<Interface>> SelectInterfaces(const std::vector<Interface>& all, const InterfaceFilter& filter);

}  // namespace sl::transport_tcp

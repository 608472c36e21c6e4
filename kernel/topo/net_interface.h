// SPDX-License-Identifier: Apache-2.0
//
// Network interfaces, and which of them ranks of several hosts meet over.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel/profile/settings.h"
#include "sdk/status.h"

namespace sl::kernel {

// Where a TCP listener is. Laid out for the wire: no padding, little-endian.
struct NetAddress {
  uint8_t family = 0;            // 4, 6, or 0: nowhere
  uint8_t reserved = 0;          // 0
  uint16_t port = 0;             // in this machine's order
  std::array<uint8_t, 16> ip{};  // in network order; IPv4 in the first four, zeros behind

  bool valid() const { return family != 0; }
  bool operator==(const NetAddress&) const = default;
};
static_assert(sizeof(NetAddress) == 20);

// True for what a socket can use, or for "nowhere" with all else zero.
bool IsWellFormed(const NetAddress& address);
bool IsLinkLocal(const NetAddress& address);
// "10.0.0.1:4711", "[fd00::1]:4711", "nowhere".
std::string ToText(const NetAddress& address);
// `scope`: index of the interface that link-local addresses are meant for. Returns the length.
socklen_t ToSocketAddress(const NetAddress& address, uint32_t scope, sockaddr_storage* out);
NetAddress FromSocketAddress(const sockaddr_storage& address);

// One address of one interface.
struct NetInterface {
  std::string name;
  uint32_t index = 0;  // the operating system's
  bool loopback = false;
  NetAddress address;  // port 0
};

// Every address of every interface that is up, in the system's order.   thread: [any]
Result<std::vector<NetInterface>> ListInterfaces();

// The interface that `names` and `family` ask for. `names` is comma-separated: beginnings of names, with a leading '='
// whole names, with a leading '^' all but these. Without names, in this order: InfiniBand ("ib…"), all but those of
// local containers and guests, then those; loopback only when it is named, since ranks that share it share a host.
// Within a class the system's order, IPv4 before IPv6, routed before link-local addresses.
// returns: SL_ERR_NOT_FOUND with what was there
Result<NetInterface> ChooseInterface(std::span<const NetInterface> all, const std::string& names, NetFamily family);

}  // namespace sl::kernel

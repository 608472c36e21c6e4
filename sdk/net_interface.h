// SPDX-License-Identifier: Apache-2.0
//
// Network interfaces of this host, and the names by which a profile asks for them: what control connections and
// transports over networks have in common.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sdk/status.h"

namespace sl {

using Ip = std::array<uint8_t, 16>;  // network order; IPv4 in the first four, zeros behind

// One address of one interface.
struct InterfaceAddress {
  std::string name;
  uint32_t index = 0;  // of the operating system; the scope of link-local addresses
  uint8_t family = 4;  // 4 or 6
  Ip ip{};
  bool up = false;
  bool running = false;  // up, and with a cable
  bool loopback = false;
};

// Every address of every interface, in the system's order.   thread: [any]
Result<std::vector<InterfaceAddress>> ListInterfaceAddresses();

bool IsLinkLocal(uint8_t family, const Ip& ip);
// Bridges that reach nothing but this host's own containers and guests.
bool IsLocalBridge(const std::string& name);
// `scope`: index of the interface that a link-local address is meant for. Returns the length.
socklen_t ToSocketAddress(uint8_t family, const Ip& ip, uint16_t port, uint32_t scope, sockaddr_storage* out);

// The parts between commas that are not empty.
std::vector<std::string> SplitAtCommas(const std::string& text);

// What NCCL_SOCKET_IFNAME and its likes say: comma-separated beginnings of names, with a leading '=' whole names, with
// a leading '^' all but these, with "^=" both. Nothing: any.
class InterfaceNames {
 public:
  explicit InterfaceNames(std::string text);
  bool Admit(const std::string& name) const { return names_.empty() || IsListed(name) != exclude_; }
  // Named, not merely left over.
  bool AskFor(const std::string& name) const { return !exclude_ && IsListed(name); }

 private:
  bool IsListed(const std::string& name) const;

  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

}  // namespace sl

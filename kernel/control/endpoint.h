// SPDX-License-Identifier: Apache-2.0
//
// Where a process takes calls, and the extension that is meant.
#pragma once

#include <string>

#include "kernel/control/local_socket.h"
#include "kernel/topo/host.h"
#include "kernel/topo/net_interface.h"

namespace sl::kernel {

// Laid out for the wire: no padding, little-endian.
struct Endpoint {
  uint64_t extension = 0;  // within the process; random, not secret
  HostId space{};          // the network namespace that `local` is heard in
  SocketName local{};
  NetAddress net;        // nowhere: cannot be called from other hosts
  uint32_t process = 0;  // for messages
};
static_assert(sizeof(Endpoint) == 64);

inline bool IsWellFormed(const Endpoint& endpoint) { return IsWellFormed(endpoint.net); }

// "process 4711", and where it is if that is known.
inline std::string ToText(const Endpoint& endpoint) {
  const std::string process = "process " + std::to_string(endpoint.process);
  return endpoint.net.valid() ? process + " at " + ToText(endpoint.net) : process;
}

}  // namespace sl::kernel

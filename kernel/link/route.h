// SPDX-License-Identifier: Apache-2.0
//
// How a peer is reached: over which transport, and between which ports.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sl_transport.h"

namespace sl::kernel {

// Where one port is reached. Ports of different fabrics never reach each other.
struct LinkAddress {
  sl_address_t address = {};  // `bytes` 0: the port does not listen
  std::array<uint8_t, 16> fabric = {};
};
using LinkPeers = std::vector<std::vector<LinkAddress>>;  // by rank, by the peer's port index

// One open transport, and where it reaches each rank. Borrowed: closed by its owner after the links are gone.
struct LinkTransport {
  const sl_transport_ops_t* ops = nullptr;
  sl_transport_t* transport = nullptr;
  std::string name;
  std::vector<std::array<uint8_t, 16>> fabrics;  // of the local ports, by index
  std::shared_ptr<const LinkPeers> peers;        // shared by the ranks of a process, which may be many
};

struct Route {
  uint32_t transport = 0;                            // its index
  std::vector<std::pair<uint32_t, uint32_t>> ports;  // local and remote, which paths use in turn; empty: there is none
};

// Over the first transport that has a port on a fabric of the peer's.   thread: [any]
Route FindRoute(const std::vector<LinkTransport>& transports, uint32_t peer);

}  // namespace sl::kernel

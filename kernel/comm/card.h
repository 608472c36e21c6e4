// SPDX-License-Identifier: Apache-2.0
//
// A rank's card: what it tells all others once, when they have met. Encoded with Writer, so it may grow by fields at
// its end within one control protocol version.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernel/comm/processor_bounds.h"
#include "kernel/control/endpoint.h"
#include "kernel/control/frame.h"
#include "kernel/link/route.h"

namespace sl::kernel {

struct Card {
  HostId host{};
  uint32_t process = 0;
  CpuSet cpus{};
  uint32_t device_kind = 0;
  std::array<uint8_t, 16> domain{};
  Endpoint endpoint;  // of the rank
  std::string version;
  uint64_t settings_hash = 0;
  std::string profile;
  // By transport name: where each port listens, in the order of the ports; an address of 0 bytes is a port that does
  // not.
  std::vector<std::pair<std::string, std::vector<LinkAddress>>> addresses;
  HostId machine{};        // whose processors `cpus` are
  uint32_t clique = 0;     // of the device, in its domain
  ProcessorBounds bounds;  // that the rank asks for

  // No more ports of a transport are told, so that cards stay small: four rails of a host, in two families, twice.
  static constexpr uint32_t kMaxPorts = 16;

  Bytes Encode() const;
  static Result<Card> Decode(std::span<const uint8_t> bytes);
  // Where the ports of this rank's transport listen; none when it has no transport of that name.
  std::span<const LinkAddress> AddressesOf(const std::string& transport) const;
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// A rank's card: what it tells all others once, when they have met. Encoded with Writer, so it may grow by fields at
// its end within one control protocol version.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernel/comm/comm.h"
#include "kernel/comm/frame.h"

namespace sl::kernel {

struct Communicator::Card {
  HostId host{};
  uint32_t process = 0;
  CpuSet cpus{};
  uint32_t device_kind = 0;
  std::array<uint8_t, 16> domain{};
  SocketName heap_listener{};
  std::string version;
  uint64_t settings_hash = 0;
  std::string profile;
  std::vector<std::pair<std::string, sl_address_t>> addresses;  // by transport name

  Bytes Encode() const;
  static Result<Card> Decode(const Bytes& bytes);
  // Where this rank's transport listens; empty when it has none of that name.
  sl_address_t AddressOf(const std::string& transport) const;
};

struct Communicator::Transport {
  std::string name;
  const sl_transport_ops_t* ops;
  sl_transport_t* handle;
  sl_address_t address;
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The module's options and their effective values.
#pragma once

#include <cstdint>
#include <string>

#include "modules/transport-tcp/interface.h"
#include "sdk/options.h"
#include "sdk/status.h"

namespace sl::transport_tcp {

struct Settings {
  InterfaceFilter filter;
  uint16_t first_listen_port = 0;  // 0: any that is free
  uint16_t last_listen_port = 0;
  uint64_t latency_ns = 25'000;         // one way; sizes buffers, and is what ports say
  uint64_t socket_buffer_bytes = 0;     // 0: from speed and latency
  std::string congestion_control;       // empty: the system's
  int traffic_class = 0;                // DSCP and ECN byte
  int busy_poll_us = 0;                 // 0: off
  uint64_t zerocopy_minimum_bytes = 0;  // 0: off
  uint64_t handshake_timeout_ns = 10'000'000'000;
  uint32_t handshake_slots = 256;
  uint64_t peer_timeout_ns = 1'500'000'000;  // 0: the system's patience, a quarter of an hour
  bool huge_pages = false;
};

enum Option : uint32_t {
  kInterfaces,
  kSubnets,
  kFamily,
  kMinimumSpeed,
  kListenPorts,
  kLatency,
  kSocketBuffer,
  kCongestionControl,
  kTrafficClass,
  kBusyPoll,
  kZerocopy,
  kPeerTimeout,
  kHandshakeTimeout,
  kHandshakeSlots,
  kHugePages,
};
inline constexpr sl_option_t kOptions[] = {
    StringOption("interfaces",
                 "interfaces to use, comma-separated prefixes; =name exact, ^name all but; empty: comm.interface, "
                 "else all but bridges of this host and loopback",
                 ""),
    StringOption("subnets", "only addresses of these subnets, such as 192.0.2.0/24,fd00::/8; empty: any", ""),
    ChoiceOption("family", "IP version; auto: comm.socket_family, else IPv4 where an interface has it", "auto",
                 "auto,ipv4,ipv6"),
    IntOption("minimum_megabits_per_second", "Mbit/s", "only interfaces of this speed; unknown counts as 10000", "0", 0,
              10'000'000),
    StringOption("listen_ports", "ports to listen on, such as 50000-50099; empty: any that is free", ""),
    IntOption("latency_us", "us", "one way through the network; sizes buffers and is what ports report", "25", 1,
              10'000'000),
    IntOption("socket_buffer_bytes", "bytes", "of each stream and direction; 0: from speed and latency", "0", 0,
              1 << 30),
    StringOption("congestion_control", "of streams, such as bbr or dctcp; empty: the system's", ""),
    IntOption("traffic_class", "", "DSCP and ECN byte of packets", "0", 0, 255),
    IntOption("busy_poll_us", "us", "how long the system polls the device when a stream has nothing; 0: not", "0", 0,
              1'000'000),
    IntOption("zerocopy_minimum_bytes", "bytes", "puts from this size on are sent with MSG_ZEROCOPY; 0: none", "0", 0,
              1 << 30),
    IntOption("peer_timeout_ms", "ms", "a host that leaves data unanswered for so long is down; 0: the system's limits",
              "1500", 0, 86'400'000),
    IntOption("handshake_timeout_ms", "ms", "a connection that has not proved itself by then is dropped", "10000", 10,
              600'000),
    IntOption("handshake_slots", "", "connections that may be proving themselves at once", "256", 1, 65536),
    BoolOption("huge_pages", "ask for transparent huge pages for windows", "false"),
};

// INVALID: an option that the kernel's check of types and ranges could not find wrong.
Result<Settings> ReadSettings(const OptionReader& options);

}  // namespace sl::transport_tcp

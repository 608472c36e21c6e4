// SPDX-License-Identifier: Apache-2.0
//
// What hops, messages and bytes cost on links within a host and between hosts: the numbers that estimates of plans are
// made of, by the α–β model. Estimates are compared, so algorithms take the same numbers, as options of one form; all
// ranks must use the same values.
#pragma once

#include <cstdint>

#include "sdk/options.h"

namespace sl {

struct LinkCost {
  uint64_t latency_ns = 700;
  uint64_t bytes_per_second = 6'000'000'000;
  uint64_t network_latency_ns = 20'000;
  uint64_t network_bytes_per_second = 3'000'000'000;
  uint64_t network_message_ns = 3'000;

  // From the first options of a module.
  static LinkCost Of(const OptionReader& options) {
    const auto value = [&](uint32_t index) { return static_cast<uint64_t>(options.Int(index)); };
    return {value(0), value(1), value(2), value(3), value(4)};
  }
};

// The defaults are those of LinkCost, chosen for shared memory and TCP on a server's cores.
inline constexpr sl_option_t kLinkCostOptions[] = {
    IntOption("latency_ns", "ns", "time of one hop between ranks of a host", "700", 0, 1e9),
    IntOption("bytes_per_second", "bytes/s", "rate of one link within a host, reduction included", "6000000000", 1e6,
              1e15),
    IntOption("network_latency_ns", "ns", "time of one hop between hosts", "20000", 0, 1e9),
    IntOption("network_bytes_per_second", "bytes/s", "rate of one host's network", "3000000000", 1e6, 1e15),
    IntOption("network_message_ns", "ns", "handling one message between hosts, at either end", "3000", 0, 1e9),
};

// Handling one chunk within a host, at either end, apart from its latency and bytes: about what the engine takes.
constexpr uint64_t kMessageNs = 150;

}  // namespace sl

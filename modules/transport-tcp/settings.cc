// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/settings.h"

#include <charconv>

namespace sl::transport_tcp {
namespace {

// "" | "50000" | "50000-50099"
bool ParsePorts(const std::string& text, uint16_t* out_first, uint16_t* out_last) {
  if (text.empty()) return true;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, *out_first);
  *out_last = *out_first;
  if (first.ec != std::errc() || *out_first == 0) return false;
  if (first.ptr == end) return true;
  if (*first.ptr != '-') return false;
  const auto last = std::from_chars(first.ptr + 1, end, *out_last);
  return last.ec == std::errc() && last.ptr == end && *out_last >= *out_first;
}

}  // namespace

Result<Settings> ReadSettings(const OptionReader& options) {
  Settings settings;
  settings.filter.names = options.String(kInterfaces);
  settings.filter.subnets = options.String(kSubnets);
  settings.filter.family = options.String(kFamily);
  settings.filter.minimum_megabits_per_second = static_cast<uint64_t>(options.Int(kMinimumSpeed));
  const std::string ports = options.String(kListenPorts);
  if (!ParsePorts(ports, &settings.first_listen_port, &settings.last_listen_port)) {
    return Status(SL_ERR_CONFIG, "listen_ports: " + ports + " is no range of ports; write 50000-50099");
  }
  // Which interfaces there are is for communicators to find out; a filter that cannot be read passes none.
  const Status filtered = SelectInterfaces({}, settings.filter).status();
  if (filtered.code() == SL_ERR_CONFIG) return filtered;
  settings.latency_ns = static_cast<uint64_t>(options.Int(kLatency)) * 1'000;
  settings.socket_buffer_bytes = static_cast<uint64_t>(options.Int(kSocketBuffer));
  settings.congestion_control = options.String(kCongestionControl);
  settings.traffic_class = static_cast<int>(options.Int(kTrafficClass));
  settings.busy_poll_us = static_cast<int>(options.Int(kBusyPoll));
  settings.zerocopy_minimum_bytes = static_cast<uint64_t>(options.Int(kZerocopy));
  settings.peer_timeout_ns = static_cast<uint64_t>(options.Int(kPeerTimeout)) * 1'000'000;
  settings.handshake_timeout_ns = static_cast<uint64_t>(options.Int(kHandshakeTimeout)) * 1'000'000;
  settings.handshake_slots = static_cast<uint32_t>(options.Int(kHandshakeSlots));
  settings.huge_pages = options.Bool(kHugePages);
  return settings;
}

}  // namespace sl::transport_tcp

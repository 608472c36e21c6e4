// SPDX-License-Identifier: Apache-2.0
#include "kernel/topo/net_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <tuple>

namespace sl::kernel {
namespace {

// Bridges that reach nothing but this host's own containers and guests.
constexpr const char* kLocalBridges[] = {"docker", "virbr", "cni"};

// The syntax of NCCL_SOCKET_IFNAME.
class NameFilter {
 public:
  explicit NameFilter(std::string text) {
    exclude_ = text.starts_with('^');
    if (exclude_) text.erase(0, 1);
    exact_ = text.starts_with('=');
    if (exact_) text.erase(0, 1);
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
      if (!part.empty()) names_.push_back(part);
    }
  }
  bool Admits(const std::string& name) const { return names_.empty() || IsListed(name) != exclude_; }
  // Named, not merely left over.
  bool AsksFor(const std::string& name) const { return !exclude_ && IsListed(name); }

 private:
  bool IsListed(const std::string& name) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const std::string& wanted) { return exact_ ? name == wanted : name.starts_with(wanted); });
  }
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

uint32_t ClassOf(const NetInterface& interface) {
  const auto begins = [&](const char* prefix) { return interface.name.starts_with(prefix); };
  if (begins("ib")) return 0;
  return std::any_of(std::begin(kLocalBridges), std::end(kLocalBridges), begins) ? 2 : 1;
}

// The smaller, the better; equal ones stay in the system's order.
std::tuple<uint32_t, bool, uint8_t> Rank(const NetInterface& interface, bool asked_for) {
  return {asked_for ? 0 : ClassOf(interface), IsLinkLocal(interface.address), interface.address.family};
}

std::string Describe(std::span<const NetInterface> all) {
  std::string text;
  for (const NetInterface& interface : all) {
    const std::string address = ToText(interface.address);
    text += (text.empty() ? "" : ", ") + interface.name + " " + address.substr(0, address.rfind(':'));
  }
  return text.empty() ? "none" : text;
}

}  // namespace

bool IsWellFormed(const NetAddress& address) {
  if (address.reserved != 0) return false;
  if (address.family == 6) return true;
  if (address.family != 4 && address != NetAddress{}) return false;
  return std::all_of(address.ip.begin() + 4, address.ip.end(), [](uint8_t byte) { return byte == 0; });
}

bool IsLinkLocal(const NetAddress& address) {
  return address.family == 6 && address.ip[0] == 0xfe && (address.ip[1] & 0xc0) == 0x80;
}

std::string ToText(const NetAddress& address) {
  if (!address.valid()) return "nowhere";
  char ip[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.ip.data(), ip, sizeof(ip));
  const std::string host = address.family == 4 ? ip : "[" + std::string(ip) + "]";
  return host + ":" + std::to_string(address.port);
}

socklen_t ToSocketAddress(const NetAddress& address, uint32_t scope, sockaddr_storage* out) {
  *out = {};
  if (address.family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.ip.data(), 4);
    std::memcpy(out, &v4, sizeof(v4));
    return sizeof(v4);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  if (IsLinkLocal(address)) v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, address.ip.data(), 16);
  std::memcpy(out, &v6, sizeof(v6));
  return sizeof(v6);
}

NetAddress FromSocketAddress(const sockaddr_storage& address) {
  NetAddress out;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof(v4));
    out.family = 4;
    out.port = ntohs(v4.sin_port);
    std::memcpy(out.ip.data(), &v4.sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof(v6));
    out.family = 6;
    out.port = ntohs(v6.sin6_port);
    std::memcpy(out.ip.data(), &v6.sin6_addr, 16);
  }
  return out;
}

Result<std::vector<NetInterface>> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Status(SL_ERR_SYSTEM, std::string("cannot list network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> holder(list, freeifaddrs);
  std::vector<NetInterface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const auto family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, entry->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({entry->ifa_name, if_nametoindex(entry->ifa_name), (entry->ifa_flags & IFF_LOOPBACK) != 0,
                     FromSocketAddress(address)});
  }
  return found;
}

Result<NetInterface> ChooseInterface(std::span<const NetInterface> all, const std::string& names, NetFamily family) {
  const NameFilter filter(names);
  const NetInterface* best = nullptr;
  for (const NetInterface& interface : all) {
    const bool asked_for = filter.AsksFor(interface.name);
    if (!filter.Admits(interface.name) || (interface.loopback && !asked_for)) continue;
    if (family != NetFamily::kAny && (family == NetFamily::kIpv4) != (interface.address.family == 4)) continue;
    if (best == nullptr || Rank(interface, asked_for) < Rank(*best, filter.AsksFor(best->name))) best = &interface;
  }
  if (best != nullptr) return *best;
  const char* const families[] = {"", " with an IPv4 address", " with an IPv6 address"};
  return Status(SL_ERR_NOT_FOUND, "no network interface" + std::string(families[static_cast<uint32_t>(family)]) +
                                      (names.empty() ? "" : " is called " + names) + "; there are " + Describe(all) +
                                      "; see comm.interface (NCCL_SOCKET_IFNAME) and comm.socket_family");
}

}  // namespace sl::kernel

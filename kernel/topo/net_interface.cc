// SPDX-License-Identifier: Apache-2.0
#include "kernel/topo/net_interface.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "sdk/net_interface.h"

namespace sl::kernel {
namespace {

uint32_t ClassOf(const NetInterface& interface) {
  if (interface.name.starts_with("ib")) return 0;
  return IsLocalBridge(interface.name) ? 2 : 1;
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

bool IsLinkLocal(const NetAddress& address) { return sl::IsLinkLocal(address.family, address.ip); }

std::string ToText(const NetAddress& address) {
  if (!address.valid()) return "nowhere";
  char ip[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.ip.data(), ip, sizeof(ip));
  const std::string host = address.family == 4 ? ip : "[" + std::string(ip) + "]";
  return host + ":" + std::to_string(address.port);
}

socklen_t ToSocketAddress(const NetAddress& address, uint32_t scope, sockaddr_storage* out) {
  return sl::ToSocketAddress(address.family, address.ip, address.port, scope, out);
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
  SL_ASSIGN(const std::vector<InterfaceAddress> all, ListInterfaceAddresses());
  std::vector<NetInterface> found;
  for (const InterfaceAddress& address : all) {
    if (address.up)
      found.push_back({address.name, address.index, address.loopback, {address.family, 0, 0, address.ip}});
  }
  return found;
}

Result<NetInterface> ChooseInterface(std::span<const NetInterface> all, const std::string& names, NetFamily family) {
  const InterfaceNames wanted(names);
  const NetInterface* best = nullptr;
  for (const NetInterface& interface : all) {
    const bool asked_for = wanted.AskFor(interface.name);
    if (!wanted.Admit(interface.name) || (interface.loopback && !asked_for)) continue;
    if (family != NetFamily::kAny && (family == NetFamily::kIpv4) != (interface.address.family == 4)) continue;
    if (best == nullptr || Rank(interface, asked_for) < Rank(*best, wanted.AskFor(best->name))) best = &interface;
  }
  if (best != nullptr) return *best;
  const char* const families[] = {"", " with an IPv4 address", " with an IPv6 address"};
  return Status(SL_ERR_NOT_FOUND, "no network interface" + std::string(families[static_cast<uint32_t>(family)]) +
                                      (names.empty() ? "" : " is called " + names) + "; there are " + Describe(all) +
                                      "; see comm.interface (NCCL_SOCKET_IFNAME) and comm.socket_family");
}

}  // namespace sl::kernel

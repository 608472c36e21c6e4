// SPDX-License-Identifier: Apache-2.0
#include "sdk/net_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "sdk/system.h"

namespace sl {

Result<std::vector<InterfaceAddress>> ListInterfaceAddresses() {
  ifaddrs* list = nullptr;
  int listed = getifaddrs(&list);
  if (listed != 0 && errno == EMFILE && RaiseDescriptorLimit()) listed = getifaddrs(&list);
  if (listed != 0) return SystemError("cannot list network interfaces", "getifaddrs", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> holder(list, freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    InterfaceAddress address;
    if (entry->ifa_addr->sa_family == AF_INET) {
      std::memcpy(address.ip.data(), &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, 4);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      address.family = 6;
      std::memcpy(address.ip.data(), &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    address.name = entry->ifa_name;
    address.index = if_nametoindex(entry->ifa_name);
    address.up = (entry->ifa_flags & IFF_UP) != 0;
    address.running = address.up && (entry->ifa_flags & IFF_RUNNING) != 0;
    address.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    found.push_back(std::move(address));
  }
  return found;
}

bool IsLinkLocal(uint8_t family, const Ip& ip) { return family == 6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80; }

bool IsLocalBridge(const std::string& name) {
  constexpr const char* kPrefixes[] = {"docker", "virbr", "cni"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

socklen_t ToSocketAddress(uint8_t family, const Ip& ip, uint16_t port, uint32_t scope, sockaddr_storage* out) {
  *out = {};
  if (family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data(), 4);
    std::memcpy(out, &v4, sizeof(v4));
    return sizeof(v4);
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (IsLinkLocal(family, ip)) v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, ip.data(), 16);
  std::memcpy(out, &v6, sizeof(v6));
  return sizeof(v6);
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

InterfaceNames::InterfaceNames(std::string text) {
  exclude_ = text.starts_with('^');
  if (exclude_) text.erase(0, 1);
  exact_ = text.starts_with('=');
  if (exact_) text.erase(0, 1);
  names_ = SplitAtCommas(text);
}

bool InterfaceNames::IsListed(const std::string& name) const {
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& wanted) { return exact_ ? name == wanted : name.starts_with(wanted); });
}

}  // namespace sl

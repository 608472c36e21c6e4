// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>

namespace sl::transport_tcp {
namespace {

// Bridges that reach nothing but this host's own containers and guests.
constexpr const char* kLocalBridges[] = {"docker", "virbr", "cni"};

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Subnet {
  uint8_t family;
  Ip ip;
  uint32_t bits;

  bool Holds(const Interface& interface) const {
    if (interface.family != family) return false;
    for (uint32_t bit = 0; bit < bits; ++bit) {
      const uint8_t mask = static_cast<uint8_t>(0x80 >> bit % 8);
      if (((ip[bit / 8] ^ interface.ip[bit / 8]) & mask) != 0) return false;
    }
    return true;
  }
};

std::optional<Subnet> ParseSubnet(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string host = text.substr(0, slash);
  Subnet subnet = {4, {}, 32};
  if (inet_pton(AF_INET, host.c_str(), subnet.ip.data()) != 1) {
    subnet = {6, {}, 128};
    if (inet_pton(AF_INET6, host.c_str(), subnet.ip.data()) != 1) return std::nullopt;
  }
  if (slash == std::string::npos) return subnet;
  const char* end = text.data() + text.size();
  uint32_t bits = 0;
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || stop != end || bits > subnet.bits) return std::nullopt;
  subnet.bits = bits;
  return subnet;
}

class NameList {
 public:
  explicit NameList(std::string text) {
    exclude_ = text.starts_with('^');
    if (exclude_) text.erase(0, 1);
    exact_ = text.starts_with('=');
    if (exact_) text.erase(0, 1);
    names_ = Split(text);
  }
  bool Admits(const std::string& name) const {
    if (names_.empty()) return true;
    const bool found = std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
      return exact_ ? name == wanted : name.starts_with(wanted);
    });
    return found != exclude_;
  }
  bool Names(const std::string& name) const { return !names_.empty() && !exclude_ && Admits(name); }

 private:
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

bool IsLocalBridge(const std::string& name) {
  return std::any_of(std::begin(kLocalBridges), std::end(kLocalBridges),
                     [&](const char* prefix) { return name.starts_with(prefix); });
}

// Of two addresses of one interface, whether the first is the better one.
bool IsBetterAddress(const Interface& a, const Interface& b) {
  if (a.reach() != b.reach()) return a.reach() < b.reach();
  return a.family < b.family;
}

uint64_t SpeedOf(const Interface& interface) {
  return interface.megabits_per_second != 0 ? interface.megabits_per_second : kAssumedMegabits;
}

std::string NamesOf(const std::vector<Interface>& all) {
  std::string names;
  for (const Interface& interface : all) {
    names += (names.empty() ? "" : ", ") + interface.name + " " + interface.IpText() + (interface.up ? "" : " (down)");
  }
  return names.empty() ? "none with an address" : names;
}

// Keeps the best class that is not empty: ordinary interfaces, bridges of this host, loopback.
std::vector<Interface> BestClass(const std::vector<Interface>& all) {
  for (const int wanted : {0, 1, 2}) {
    std::vector<Interface> found;
    for (const Interface& interface : all) {
      const int is = interface.loopback ? 2 : IsLocalBridge(interface.name) ? 1 : 0;
      if (is == wanted) found.push_back(interface);
    }
    if (!found.empty()) return found;
  }
  return {};
}

std::string ReadFact(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int64_t ReadNumber(const std::string& path, int64_t otherwise) {
  const std::string text = ReadFact(path);
  int64_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void ReadDevice(Interface* interface) {
  const std::string folder = "/sys/class/net/" + interface->name;
  interface->megabits_per_second = static_cast<uint64_t>(std::max<int64_t>(0, ReadNumber(folder + "/speed", 0)));
  std::error_code error;
  const std::filesystem::path device = std::filesystem::canonical(folder + "/device", error);
  if (error) return;
  interface->physical = true;
  interface->numa_node = static_cast<int32_t>(std::max<int64_t>(-1, ReadNumber(folder + "/device/numa_node", -1)));
  // A PCI device is called by its address; one on another bus (virtio) hangs below it.
  for (std::filesystem::path at = device; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename();
    if (name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.') {
      interface->pci_path = name;
      return;
    }
  }
}

}  // namespace

Reach Interface::reach() const {
  if (loopback) return Reach::kHost;
  return family == 6 && ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80 ? Reach::kLink : Reach::kRouted;
}

std::string Interface::IpText() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family == 4 ? AF_INET : AF_INET6, ip.data(), text, sizeof text);
  return reach() == Reach::kLink ? std::string(text) + "%" + name : text;
}

Result<std::vector<Interface>> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Status(SL_ERR_SYSTEM, std::string("cannot list network interfaces: ") + std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> holder(list, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    Interface interface;
    if (entry->ifa_addr->sa_family == AF_INET) {
      std::memcpy(interface.ip.data(), &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, 4);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      interface.family = 6;
      std::memcpy(interface.ip.data(), &reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr, 16);
    } else {
      continue;
    }
    interface.name = entry->ifa_name;
    interface.index = if_nametoindex(entry->ifa_name);
    interface.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    ReadDevice(&interface);
    found.push_back(std::move(interface));
  }
  return found;
}

Result<std::vector<Interface>> SelectInterfaces(const std::vector<Interface>& all, const InterfaceFilter& filter) {
  const NameList names(filter.names);
  std::vector<Subnet> subnets;
  for (const std::string& text : Split(filter.subnets)) {
    const std::optional<Subnet> subnet = ParseSubnet(text);
    if (!subnet) return Status(SL_ERR_INVALID, "subnets: " + text + " is no subnet; write 192.0.2.0/24 or fd00::/8");
    subnets.push_back(*subnet);
  }
  std::vector<Interface> passed;
  for (const Interface& interface : all) {
    const bool in_subnet =
        std::any_of(subnets.begin(), subnets.end(), [&](const Subnet& s) { return s.Holds(interface); });
    if (!names.Admits(interface.name) || (!subnets.empty() && !in_subnet)) continue;
    if (filter.family != "auto" && filter.family != (interface.family == 4 ? "ipv4" : "ipv6")) continue;
    if (SpeedOf(interface) < filter.minimum_megabits_per_second) continue;
    const auto same = [&](const Interface& other) { return other.name == interface.name; };
    const auto known = std::find_if(passed.begin(), passed.end(), same);
    if (known == passed.end()) {
      passed.push_back(interface);
    } else if (IsBetterAddress(interface, *known)) {
      *known = interface;
    }
  }
  const auto asked_for = [&](const Interface& i) { return names.Names(i.name) || !subnets.empty(); };
  if (!std::all_of(passed.begin(), passed.end(), asked_for)) passed = BestClass(passed);
  if (passed.empty()) {
    return Status(SL_ERR_NOT_FOUND, "no network interface passes interfaces \"" + filter.names + "\", subnets \"" +
                                        filter.subnets + "\", family " + filter.family + " and " +
                                        std::to_string(filter.minimum_megabits_per_second) + " Mbit/s; there are " +
                                        NamesOf(all));
  }
  std::stable_sort(passed.begin(), passed.end(), [](const Interface& a, const Interface& b) {
    if (a.up != b.up) return a.up;
    if (a.physical != b.physical) return a.physical;
    return SpeedOf(a) > SpeedOf(b);
  });
  return passed;
}

socklen_t ToSocketAddress(uint8_t family, const Ip& ip, uint16_t port, uint32_t scope, sockaddr_storage* out) {
  *out = {};
  if (family == 4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(out);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, ip.data(), 4);
    return sizeof *v4;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(out);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  v6->sin6_scope_id = scope;
  std::memcpy(&v6->sin6_addr, ip.data(), 16);
  return sizeof *v6;
}

}  // namespace sl::transport_tcp

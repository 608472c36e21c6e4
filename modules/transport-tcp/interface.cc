// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/interface.h"

#include <arpa/inet.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace sl::transport_tcp {
namespace {

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
  return IsLinkLocal(family, ip) ? Reach::kLink : Reach::kRouted;
}

std::string Interface::IpText() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family == 4 ? AF_INET : AF_INET6, ip.data(), text, sizeof text);
  return reach() == Reach::kLink ? std::string(text) + "%" + name : text;
}

LoopbackId ReadLoopbackId() {
  LoopbackId id = {};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  size_t digits = 0;
  for (const char c : boot) {
    if (!std::isxdigit(static_cast<unsigned char>(c)) || digits == 2 * id.size()) continue;
    const int value = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | value);
    ++digits;
  }
  struct stat space = {};
  if (stat("/proc/self/ns/net", &space) != 0) return id;
  for (size_t i = 0; i < sizeof(uint64_t); ++i) {
    id[i] ^= static_cast<uint8_t>(uint64_t{space.st_ino} >> 8 * i);
    id[i + sizeof(uint64_t)] ^= static_cast<uint8_t>(uint64_t{space.st_dev} >> 8 * i);
  }
  return id;
}

Result<std::vector<Interface>> ListInterfaces() {
  SL_ASSIGN(const std::vector<InterfaceAddress> all, ListInterfaceAddresses());
  std::vector<Interface> found;
  for (const InterfaceAddress& address : all) {
    Interface interface;
    interface.name = address.name;
    interface.index = address.index;
    interface.family = address.family;
    interface.ip = address.ip;
    interface.up = address.running;
    interface.loopback = address.loopback;
    ReadDevice(&interface);
    found.push_back(std::move(interface));
  }
  return found;
}

Result<std::vector<Interface>> SelectInterfaces(const std::vector<Interface>& all, const InterfaceFilter& filter) {
  const InterfaceNames names(filter.names);
  std::vector<Subnet> subnets;
  for (const std::string& text : SplitAtCommas(filter.subnets)) {
    const std::optional<Subnet> subnet = ParseSubnet(text);
    if (!subnet) return Status(SL_ERR_CONFIG, "subnets: " + text + " is no subnet; write 192.0.2.0/24 or fd00::/8");
    subnets.push_back(*subnet);
  }
  std::vector<Interface> passed;
  for (const Interface& interface : all) {
    const bool in_subnet =
        std::any_of(subnets.begin(), subnets.end(), [&](const Subnet& s) { return s.Holds(interface); });
    if (!names.Admit(interface.name) || (!subnets.empty() && !in_subnet)) continue;
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
  const auto asked_for = [&](const Interface& i) { return names.AskFor(i.name) || !subnets.empty(); };
  if (!std::all_of(passed.begin(), passed.end(), asked_for)) passed = BestClass(passed);
  if (passed.empty()) {
    return Status(SL_ERR_NOT_FOUND, "no network interface passes interfaces \"" + filter.names + "\", subnets \"" +
                                        filter.subnets + "\", family " + filter.family + " and " +
                                        std::to_string(filter.minimum_megabits_per_second) + " Mbit/s; there are " +
                                        NamesOf(all) + (subnets.empty() ? "" : "; let subnets hold one of these"));
  }
  std::stable_sort(passed.begin(), passed.end(), [](const Interface& a, const Interface& b) {
    if (a.up != b.up) return a.up;
    if (a.physical != b.physical) return a.physical;
    return SpeedOf(a) > SpeedOf(b);
  });
  return passed;
}

}  // namespace sl::transport_tcp

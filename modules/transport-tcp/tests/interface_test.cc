// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/interface.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace sl::transport_tcp {
namespace {

Interface Make(const std::string& name, const std::string& ip, uint64_t megabits = 0, bool physical = true) {
  Interface interface;
  interface.name = name;
  interface.family = ip.find(':') == std::string::npos ? 4 : 6;
  EXPECT_EQ(1, inet_pton(interface.family == 4 ? AF_INET : AF_INET6, ip.c_str(), interface.ip.data()));
  interface.up = true;
  interface.loopback = name == "lo";
  interface.physical = physical && !interface.loopback;
  interface.megabits_per_second = megabits;
  return interface;
}

// A host with two data interfaces, a slow one for administration, a container bridge and loopback.
std::vector<Interface> Host() {
  return {Make("lo", "127.0.0.1"),
          Make("lo", "::1"),
          Make("docker0", "172.17.0.1", 10'000, false),
          Make("mgmt0", "10.1.0.5", 1'000),
          Make("eth1", "192.0.2.5", 100'000),
          Make("eth1", "fd00::5", 100'000),
          Make("eth1", "fe80::5", 100'000),
          Make("eth10", "fe80::a", 100'000),
          Make("eth10", "fd00:1::5", 100'000)};
}

std::string Select(const InterfaceFilter& filter, const std::vector<Interface>& all = Host()) {
  const Result<std::vector<Interface>> selected = SelectInterfaces(all, filter);
  if (!selected.ok()) return StatusName(selected.status().code());
  std::string text;
  for (const Interface& interface : selected.value()) {
    text += (text.empty() ? "" : " ") + interface.name + "=" + interface.IpText();
  }
  return text;
}

TEST(Interfaces, AreAllButLocalOnesFastestFirst) {
  EXPECT_EQ(Select({}), "eth1=192.0.2.5 eth10=fd00:1::5 mgmt0=10.1.0.5");
}

TEST(Interfaces, AreNamedByPrefixExactlyOrNot) {
  EXPECT_EQ(Select({"eth1", "", "auto", 0}), "eth1=192.0.2.5 eth10=fd00:1::5");
  EXPECT_EQ(Select({"=eth1", "", "auto", 0}), "eth1=192.0.2.5");
  EXPECT_EQ(Select({"^eth", "", "auto", 0}), "mgmt0=10.1.0.5");
  EXPECT_EQ(Select({"^=eth1", "", "auto", 0}), "eth10=fd00:1::5 mgmt0=10.1.0.5");
  EXPECT_EQ(Select({"mgmt,docker", "", "auto", 0}), "mgmt0=10.1.0.5 docker0=172.17.0.1");
  EXPECT_EQ(Select({"ib", "", "auto", 0}), "not found");
}

TEST(Interfaces, AreLoopbackOnlyWhenNamedOrAlone) {
  EXPECT_EQ(Select({"lo", "", "auto", 0}), "lo=127.0.0.1");
  EXPECT_EQ(Select({"", "127.0.0.0/8", "auto", 0}), "lo=127.0.0.1");
  EXPECT_EQ(Select({"^eth,mgmt,docker", "", "auto", 0}), "lo=127.0.0.1");
  EXPECT_EQ(Select({}, {Make("lo", "127.0.0.1")}), "lo=127.0.0.1");
  EXPECT_EQ(Select({}, {Make("lo", "127.0.0.1"), Make("docker0", "172.17.0.1")}), "docker0=172.17.0.1");
}

TEST(Interfaces, AreFilteredBySubnetFamilyAndSpeed) {
  EXPECT_EQ(Select({"", "192.0.2.0/24", "auto", 0}), "eth1=192.0.2.5");
  EXPECT_EQ(Select({"", "192.0.2.0/30,10.0.0.0/8", "auto", 0}), "mgmt0=10.1.0.5");
  EXPECT_EQ(Select({"", "fd00::/16", "auto", 0}), "eth1=fd00::5 eth10=fd00:1::5");
  EXPECT_EQ(Select({"", "fd00:1::5", "auto", 0}), "eth10=fd00:1::5");
  EXPECT_EQ(Select({"", "", "ipv6", 0}), "eth1=fd00::5 eth10=fd00:1::5");
  EXPECT_EQ(Select({"", "", "auto", 25'000}), "eth1=192.0.2.5 eth10=fd00:1::5");
  EXPECT_EQ(Select({"", "", "ipv4", 200'000}), "not found");
}

TEST(Interfaces, OfNoDeviceComeLast) {
  EXPECT_EQ(Select({}, {Make("tun0", "10.8.0.1", 10'000, false), Make("eth0", "192.0.2.1", 1'000)}),
            "eth0=192.0.2.1 tun0=10.8.0.1");
}

TEST(Interfaces, ThatAreDownComeAfterAllOthers) {
  std::vector<Interface> all = {Make("eth0", "192.0.2.1", 100'000), Make("eth1", "192.0.2.2", 1'000)};
  all[0].up = false;
  EXPECT_EQ(Select({}, all), "eth1=192.0.2.2 eth0=192.0.2.1");
}

TEST(Interfaces, FallBackToLinkLocalWithTheirScope) {
  EXPECT_EQ(Select({}, {Make("eth0", "fe80::1")}), "eth0=fe80::1%eth0");
}

TEST(Interfaces, OfAWrongFilterAreRefusedInWords) {
  const Result<std::vector<Interface>> wrong = SelectInterfaces(Host(), {"", "192.0.2.0/33", "auto", 0});
  EXPECT_EQ(wrong.status().code(), SL_ERR_CONFIG);
  EXPECT_NE(wrong.status().message().find("192.0.2.0/33 is no subnet"), std::string::npos);
  const Result<std::vector<Interface>> none = SelectInterfaces(Host(), {"ib", "", "auto", 0});
  EXPECT_NE(none.status().message().find("there are lo 127.0.0.1, "), std::string::npos) << none.status().message();
  const Result<std::vector<Interface>> outside = SelectInterfaces(Host(), {"", "198.51.100.0/24", "auto", 0});
  EXPECT_EQ(outside.status().code(), SL_ERR_NOT_FOUND);
  EXPECT_NE(outside.status().message().find("subnets \"198.51.100.0/24\", "), std::string::npos);
  EXPECT_NE(outside.status().message().find("; let subnets hold one of these"), std::string::npos);
}

TEST(Interfaces, OfThisMachineCanBeListed) {
  const Result<std::vector<Interface>> all = ListInterfaces();
  ASSERT_TRUE(all.ok());
  for (const Interface& interface : all.value()) {
    EXPECT_FALSE(interface.name.empty());
    EXPECT_NE(interface.index, 0u);
    EXPECT_GE(interface.numa_node, -1);
  }
}

TEST(SocketAddress, CarriesTheScopeOfLinkLocalAddresses) {
  sockaddr_storage storage;
  const Interface local = Make("eth0", "fe80::1");
  EXPECT_EQ(ToSocketAddress(6, local.ip, 80, 7, &storage), sizeof(sockaddr_in6));
  EXPECT_EQ(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_scope_id, 7u);
  EXPECT_EQ(ntohs(reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port), 80);
}

}  // namespace
}  // namespace sl::transport_tcp

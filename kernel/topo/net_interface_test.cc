// SPDX-License-Identifier: Apache-2.0
#include "kernel/topo/net_interface.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

NetInterface Make(const std::string& name, const char* ip, bool loopback = false) {
  NetInterface interface;
  interface.name = name;
  interface.loopback = loopback;
  interface.address.family = inet_pton(AF_INET, ip, interface.address.ip.data()) == 1 ? 4 : 6;
  if (interface.address.family == 6) inet_pton(AF_INET6, ip, interface.address.ip.data());
  return interface;
}

const std::vector<NetInterface> kHost = {
    Make("lo", "127.0.0.1", true), Make("lo", "::1", true),  Make("docker0", "172.17.0.1"), Make("eth0", "fe80::1"),
    Make("eth0", "fd00::1"),       Make("eth0", "10.0.0.1"), Make("eth1", "10.1.0.1")};

std::string Chosen(const std::vector<NetInterface>& all, const std::string& names, NetFamily family = NetFamily::kAny) {
  const Result<NetInterface> chosen = ChooseInterface(all, names, family);
  return chosen.ok() ? chosen.value().name + " " + ToText(chosen.value().address) : "";
}

TEST(NetInterface, IsARoutedOneOfTheHostUnlessAnotherIsNamed) {
  EXPECT_EQ(Chosen(kHost, ""), "eth0 10.0.0.1:0");
  EXPECT_EQ(Chosen(kHost, "eth1"), "eth1 10.1.0.1:0");
  EXPECT_EQ(Chosen(kHost, "=eth1,eth0"), "eth0 10.0.0.1:0");
  EXPECT_EQ(Chosen(kHost, "=eth"), "");
  EXPECT_EQ(Chosen(kHost, "^eth0"), "eth1 10.1.0.1:0");
  EXPECT_EQ(Chosen(kHost, "^eth"), "docker0 172.17.0.1:0");
  EXPECT_EQ(Chosen(kHost, "docker"), "docker0 172.17.0.1:0");
}

TEST(NetInterface, IsInfiniBandWhereThereIsOne) {
  std::vector<NetInterface> all = kHost;
  all.push_back(Make("ib0", "10.9.0.1"));
  EXPECT_EQ(Chosen(all, ""), "ib0 10.9.0.1:0");
}

TEST(NetInterface, IsLoopbackOnlyWhenItIsNamed) {
  const std::vector<NetInterface> alone = {kHost[0], kHost[1]};
  EXPECT_EQ(Chosen(alone, ""), "");
  EXPECT_EQ(Chosen(alone, "^eth"), "");
  EXPECT_EQ(Chosen(alone, "lo"), "lo 127.0.0.1:0");
}

TEST(NetInterface, HasAnAddressOfTheFamilyAskedFor) {
  EXPECT_EQ(Chosen(kHost, "", NetFamily::kIpv6), "eth0 [fd00::1]:0");
  EXPECT_EQ(Chosen(kHost, "", NetFamily::kIpv4), "eth0 10.0.0.1:0");
  EXPECT_EQ(Chosen(kHost, "eth1", NetFamily::kIpv6), "");
  EXPECT_EQ(Chosen({kHost[3]}, ""), "eth0 [fe80::1]:0");
}

TEST(NetInterface, SaysWhatWasThereWhenNoneIsChosen) {
  const Status status = ChooseInterface(kHost, "eno", NetFamily::kAny).status();
  EXPECT_EQ(status.code(), SL_ERR_NOT_FOUND);
  EXPECT_NE(status.message().find("eno"), std::string::npos);
  EXPECT_NE(status.message().find("eth1 10.1.0.1"), std::string::npos) << status.message();
}

TEST(NetAddress, IsWellFormedOrRefused) {
  NetAddress address;
  EXPECT_TRUE(IsWellFormed(address));
  address.port = 1;
  EXPECT_FALSE(IsWellFormed(address));
  address.family = 4;
  EXPECT_TRUE(IsWellFormed(address));
  address.ip[4] = 1;
  EXPECT_FALSE(IsWellFormed(address));
  address.family = 6;
  EXPECT_TRUE(IsWellFormed(address));
  address.family = 5;
  EXPECT_FALSE(IsWellFormed(address));
}

TEST(NetAddress, ComesBackFromASocketAddress) {
  for (const NetInterface& interface : kHost) {
    NetAddress address = interface.address;
    address.port = 4711;
    sockaddr_storage socket_address;
    ToSocketAddress(address, 3, &socket_address);
    EXPECT_EQ(FromSocketAddress(socket_address), address) << ToText(address);
  }
}

}  // namespace
}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/transport_set.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

#include "kernel/comm/roster.h"

namespace sl::kernel {
namespace {

constexpr HostId kHost = {1};
constexpr HostId kNetwork = {2};

// A module, and what was done with it.
struct Fake {
  HostId fabric{};
  uint64_t latency_ns = 0;
  uint32_t ports = 1;
  uint32_t deaf_ports = 0;  // the first ones, which cannot listen
  sl_status_t opens = SL_OK;
  uint32_t opened = 0;
  uint32_t closed = 0;
  uint32_t listening = 0;
};

Fake* Of(sl_transport_t* transport) { return reinterpret_cast<Fake*>(transport); }

sl_status_t Open(sl_instance_t* instance, const sl_transport_env_t*, sl_transport_t** out_transport) {
  auto* fake = reinterpret_cast<Fake*>(instance);
  if (fake->opens != SL_OK) return fake->opens;
  ++fake->opened;
  *out_transport = reinterpret_cast<sl_transport_t*>(fake);
  return SL_OK;
}
void Close(sl_transport_t* transport) { ++Of(transport)->closed; }
sl_status_t PortCount(sl_transport_t* transport, uint32_t* out_count) {
  *out_count = Of(transport)->ports;
  return SL_OK;
}
sl_status_t PortInfo(sl_transport_t* transport, uint32_t port, sl_port_t* out_port) {
  out_port->latency_ns = Of(transport)->latency_ns + port;
  std::memcpy(out_port->fabric, Of(transport)->fabric.data(), sizeof(out_port->fabric));
  return SL_OK;
}
sl_status_t Listen(sl_transport_t* transport, uint32_t port, sl_address_t* out_address) {
  if (port < Of(transport)->deaf_ports) return SL_ERR_LIMIT;
  ++Of(transport)->listening;
  out_address->bytes = port + 1;
  return SL_OK;
}

class TransportSetTest : public ::testing::Test {
 protected:
  TransportSetTest() {
    ops_.open = Open;
    ops_.close = Close;
    ops_.port_count = PortCount;
    ops_.port_info = PortInfo;
    ops_.listen = Listen;
  }

  Fake* Offer(const std::string& name, const HostId& fabric, uint64_t latency_ns) {
    Fake* fake = &(fakes_[name] = {fabric, latency_ns});
    offered_.all.push_back({name, name + " 1.0", false, &ops_, reinterpret_cast<sl_instance_t*>(fake)});
    return fake;
  }
  std::unique_ptr<TransportSet> NewSet() {
    sl_transport_env_t env{};
    env.struct_size = sizeof(env);
    std::memcpy(env.host_id, kHost.data(), sizeof(env.host_id));
    return std::make_unique<TransportSet>(&offered_, env);
  }

  sl_transport_ops_t ops_{};
  std::map<std::string, Fake> fakes_;
  OfferedTransports offered_;
};

TEST_F(TransportSetTest, ListensWithinTheHostWithTheQuickestAlone) {
  const Fake* tcp = Offer("tcp", kNetwork, 9000);
  const Fake* slow = Offer("slow", kHost, 500);
  const Fake* shm = Offer("shm", kHost, 100);
  const auto set = NewSet();
  ASSERT_TRUE(set->Listen(false).ok());
  EXPECT_EQ(shm->listening, 1u);
  EXPECT_EQ(slow->listening + tcp->listening, 0u);
  const auto told = set->addresses();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, "shm");
  EXPECT_EQ(told[0].second.at(0).fabric, kHost);
  set->CloseSilent();
  EXPECT_EQ(slow->closed + tcp->closed, 2u);
  EXPECT_EQ(shm->closed, 0u);
}

TEST_F(TransportSetTest, LeavesWhatWasFoundToBeANetworkAloneUntilItIsNeeded) {
  const Fake* tcp = Offer("tcp", kNetwork, 9000);
  Offer("shm", kHost, 100);
  ASSERT_TRUE(NewSet()->Listen(false).ok());
  EXPECT_EQ(tcp->opened, 1u);
  const auto set = NewSet();
  ASSERT_TRUE(set->Listen(false).ok());
  EXPECT_EQ(tcp->opened, 1u) << "it is known from the first time";
  ASSERT_TRUE(set->Listen(true).ok());
  EXPECT_EQ(tcp->opened, 2u);
  EXPECT_EQ(tcp->listening, 1u);
}

TEST_F(TransportSetTest, ListensWithAllOnceWhenNetworksAreNeeded) {
  Offer("tcp", kNetwork, 9000);
  Offer("shm", kHost, 100);
  const auto set = NewSet();
  ASSERT_TRUE(set->Listen(false).ok());
  ASSERT_TRUE(set->Listen(true).ok());
  for (const auto& [name, fake] : fakes_) {
    EXPECT_EQ(fake.opened, 1u) << name;
    EXPECT_EQ(fake.listening, 1u) << name;
  }
  const std::shared_ptr<const Roster> nobody = Roster::Read(Contributions::Read({}, 0).Take()).Take();
  const auto used = set->ForLinks(nobody);
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(used[0].name, "shm") << "the quickest comes first";
  EXPECT_EQ(used[1].fabrics.at(0), kNetwork);
}

TEST_F(TransportSetTest, GoesOnWithThePortsThatListen) {
  Fake* tcp = Offer("tcp", kNetwork, 9000);
  tcp->ports = 2;
  tcp->deaf_ports = 1;
  const auto set = NewSet();
  ASSERT_TRUE(set->Listen(true).ok());
  EXPECT_EQ(set->addresses().at(0).second.at(0).address.bytes, 0u);
  EXPECT_EQ(set->addresses().at(0).second.at(1).address.bytes, 2u);
}

TEST_F(TransportSetTest, FailsWithATransportWithoutAnyPortThatListens) {
  Offer("tcp", kNetwork, 9000)->deaf_ports = 1;
  EXPECT_EQ(NewSet()->Listen(true).code(), SL_ERR_LIMIT);
}

TEST_F(TransportSetTest, LeavesOutWhatDoesNotOpenAndClosesEachOnce) {
  Offer("ib", kNetwork, 10)->opens = SL_ERR_NOT_FOUND;
  Offer("idle", kHost, 20)->ports = 0;
  Offer("shm", kHost, 100);
  {
    const auto set = NewSet();
    ASSERT_TRUE(set->Listen(true).ok());
    set->CloseSilent();
    EXPECT_EQ(set->addresses().size(), 1u);
  }
  EXPECT_EQ(fakes_["ib"].closed, 0u);
  EXPECT_EQ(fakes_["idle"].closed, 1u);
  EXPECT_EQ(fakes_["shm"].closed, 1u);
}

}  // namespace
}  // namespace sl::kernel

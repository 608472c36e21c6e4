// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/card.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

LinkAddress Address(uint8_t first, uint32_t bytes) {
  LinkAddress port;
  port.address.bytes = bytes;
  port.address.data[0] = first;
  port.fabric.fill(first);
  return port;
}

Card Sample() {
  Card card;
  card.host.fill(7);
  card.process = 4711;
  card.version = "1.2.3";
  card.settings_hash = 99;
  card.profile = "auto";
  card.addresses.push_back({"shm", {Address(1, 56)}});
  card.addresses.push_back({"tcp", {Address(0, 0), Address(3, 28), Address(4, 252)}});
  return card;
}

TEST(Card, CarriesTheAddressOfEveryPort) {
  const Result<Card> read = Card::Decode(Sample().Encode());
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Card& card = read.value();
  EXPECT_EQ(card.process, 4711u);
  EXPECT_EQ(card.profile, "auto");
  ASSERT_EQ(card.AddressesOf("shm").size(), 1u);
  ASSERT_EQ(card.AddressesOf("tcp").size(), 3u);
  EXPECT_EQ(card.AddressesOf("tcp")[2].address.bytes, 252u);
  EXPECT_EQ(card.AddressesOf("tcp")[2].address.data[0], 4u);
  EXPECT_EQ(card.AddressesOf("tcp")[2].fabric[15], 4u);
  EXPECT_TRUE(card.AddressesOf("ib").empty());
}

TEST(Card, CarriesWhatTheRankAsksFor) {
  Card card = Sample();
  card.bounds = {2, 16, 8, 1};
  EXPECT_EQ(Card::Decode(card.Encode()).value().bounds, card.bounds);
  card.bounds.weight = ProcessorBounds::kMostWeight + 1;
  EXPECT_EQ(Card::Decode(card.Encode()).status().code(), SL_ERR_LINK_CORRUPT);
  card.bounds = {2, 16, 8, 2};
  EXPECT_EQ(Card::Decode(card.Encode()).status().code(), SL_ERR_LINK_CORRUPT);
}

TEST(Card, IsRefusedWhenItIsCutShort) {
  const Bytes whole = Sample().Encode();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(Card::Decode(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))).ok()) << bytes;
  }
}

TEST(Card, IsRefusedWithMorePortsOrLongerAddressesThanThereCanBe) {
  Card many = Sample();
  many.addresses[1].second.resize(Card::kMaxPorts + 1);
  EXPECT_EQ(Card::Decode(many.Encode()).status().code(), SL_ERR_LINK_CORRUPT);
  Bytes bytes = Sample().Encode();
  const uint32_t too_long = 253;
  // Fabric, machine, clique and bounds.
  const size_t behind = 2 * sizeof(HostId) + sizeof(Card::clique) + sizeof(ProcessorBounds);
  std::memcpy(bytes.data() + bytes.size() - behind - 252 - sizeof(too_long), &too_long, sizeof(too_long));
  bytes.push_back(0);
  EXPECT_EQ(Card::Decode(bytes).status().code(), SL_ERR_LINK_CORRUPT);
}

TEST(Card, MayGrowAtItsEnd) {
  Bytes bytes = Sample().Encode();
  bytes.insert(bytes.end(), 40, uint8_t{0xff});
  EXPECT_TRUE(Card::Decode(bytes).ok());
}

}  // namespace
}  // namespace sl::kernel

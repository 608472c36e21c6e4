// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/wire.h"

#include <gtest/gtest.h>

#include <cstring>

#include "modules/transport-tcp/handshake.h"

namespace sl::transport_tcp {
namespace {

Address LegalAddress() {
  Address address = {};
  address.magic = kWireMagic;
  address.version = kWireVersion;
  address.family = 4;
  address.port = 4711;
  address.ip[0] = 192;
  return address;
}

bool Decodes(const Address& address) {
  sl_address_t bytes;
  EncodeAddress(address, &bytes);
  Address decoded;
  return DecodeAddress(bytes, &decoded);
}

TEST(Address, ComesBackAsItWas) {
  sl_address_t bytes;
  EncodeAddress(LegalAddress(), &bytes);
  EXPECT_EQ(bytes.bytes, 60u);
  EXPECT_EQ(0, std::memcmp(bytes.data, "STCP\x01\0\x04\0\x67\x12", 10)) << "little-endian, magic first";
  Address decoded;
  ASSERT_TRUE(DecodeAddress(bytes, &decoded));
  EXPECT_EQ(0, std::memcmp(&decoded, bytes.data, sizeof decoded));
  for (const uint32_t wrong : {0u, 59u, 61u, 252u}) {
    bytes.bytes = wrong;
    EXPECT_FALSE(DecodeAddress(bytes, &decoded)) << wrong << " bytes";
  }
}

TEST(Address, IsRefusedWhenAFieldIsIllegal) {
  ASSERT_TRUE(Decodes(LegalAddress()));
  const auto refused = [](auto change) {
    Address address = LegalAddress();
    change(&address);
    return !Decodes(address);
  };
  EXPECT_TRUE(refused([](Address* a) { a->magic ^= 1; }));
  EXPECT_TRUE(refused([](Address* a) { a->version = 2; }));
  EXPECT_TRUE(refused([](Address* a) { a->family = 5; }));
  EXPECT_TRUE(refused([](Address* a) { a->reach = static_cast<Reach>(3); }));
  EXPECT_TRUE(refused([](Address* a) { a->port = 0; }));
  EXPECT_TRUE(refused([](Address* a) { a->reserved = 1; }));
  EXPECT_TRUE(refused([](Address* a) { a->ip[4] = 1; })) << "IPv4 has four bytes";
  EXPECT_FALSE(refused([](Address* a) { a->family = 6, a->ip[15] = 1; }));
}

TEST(Frame, IsLegalOnlyInsideItsTarget) {
  const auto why = [](uint16_t kind, uint16_t signal, uint64_t bytes, uint64_t offset) {
    return WhyIllegal({kind, signal, 0, bytes, offset, 1}, 4096, 3);
  };
  EXPECT_EQ(why(kFramePut, 2, 4096, 0), nullptr);
  EXPECT_EQ(why(kFramePut, kFrameNoSignal, 1, 4095), nullptr);
  EXPECT_EQ(why(kFramePut, 0, 0, UINT64_MAX), nullptr) << "no bytes, no place";
  EXPECT_NE(why(kFramePut, 3, 0, 0), nullptr);
  EXPECT_NE(why(kFramePut, 0, 2, 4095), nullptr);
  EXPECT_NE(why(kFramePut, 0, 4097, 0), nullptr);
  EXPECT_NE(why(kFramePut, 0, 8, UINT64_MAX - 3), nullptr) << "a sum that wraps round";
  EXPECT_NE(why(kFramePut, 0, UINT64_MAX, 8), nullptr);
  EXPECT_NE(why(0, 0, 0, 0), nullptr);
  EXPECT_NE(why(5, 0, 0, 0), nullptr);
  EXPECT_NE(why(kFrameGoodbye, kFrameNoSignal, 1, 0), nullptr);
  EXPECT_NE(why(kFrameProbe, 0, 0, 0), nullptr);
  EXPECT_NE(WhyIllegal({kFramePut, 0, 9, 0, 0, 1}, 4096, 3), nullptr) << "reserved";
}

// Both ends, with the bytes carried by hand.
class Handshakes : public ::testing::Test {
 protected:
  Handshakes() {
    std::memset(secret_, 5, sizeof secret_);
    listener_.fill(1);
    hello_.from = 2;
    hello_.to = 1;
    hello_.lane = 6;
    hello_.signal_count = 4;
    hello_.tag = 99;
    hello_.window_bytes = 4096;
  }
  Host MakeHost(uint8_t fresh) const {
    Nonce nonce;
    nonce.fill(fresh);
    return Host({secret_, 1, 4, listener_}, nonce);
  }
  Caller MakeCaller(uint8_t fresh) const {
    Nonce nonce;
    nonce.fill(fresh);
    return Caller(secret_, hello_, listener_, nonce);
  }
  // Feeds a message byte by byte; the last step.
  template <typename End, typename Message>
  static Step Feed(End* end, const Message& message) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&message);
    Step step = Step::kMore;
    for (size_t i = 0; i < sizeof message && step == Step::kMore; ++i) {
      if (end->room_bytes() == 0) return Step::kRefused;
      *end->room() = bytes[i];
      step = end->Advance(1);
    }
    return step;
  }

  uint8_t secret_[32];
  Nonce listener_;
  Hello hello_ = {};
};

TEST_F(Handshakes, EndWithBothProved) {
  Host host = MakeHost(3);
  Caller caller = MakeCaller(4);
  ASSERT_EQ(Feed(&host, caller.hello()), Step::kSay);
  ASSERT_EQ(Feed(&caller, host.challenge()), Step::kDone);
  ASSERT_EQ(Feed(&host, caller.confirm()), Step::kDone);
  EXPECT_EQ(host.hello().from, 2u);
  EXPECT_EQ(host.hello().lane, 6u);
  EXPECT_EQ(host.hello().tag, 99u);
  EXPECT_EQ(host.hello().window_bytes, 4096u);
}

TEST_F(Handshakes, RefuseAnyFlippedBit) {
  const Caller good = MakeCaller(4);
  for (size_t bit = 0; bit < 8 * sizeof(Hello); ++bit) {
    Hello hello = good.hello();
    reinterpret_cast<uint8_t*>(&hello)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    Host host = MakeHost(3);
    EXPECT_EQ(Feed(&host, hello), Step::kRefused) << "bit " << bit << " of the hello";
    EXPECT_FALSE(host.why().empty());
  }
  for (size_t bit = 0; bit < 8 * sizeof(Challenge); ++bit) {
    Host host = MakeHost(3);
    Caller caller = MakeCaller(4);
    ASSERT_EQ(Feed(&host, caller.hello()), Step::kSay);
    Challenge challenge = host.challenge();
    reinterpret_cast<uint8_t*>(&challenge)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_EQ(Feed(&caller, challenge), Step::kRefused) << "bit " << bit << " of the challenge";
  }
  for (size_t bit = 0; bit < 8 * sizeof(Confirm); ++bit) {
    Host host = MakeHost(3);
    Caller caller = MakeCaller(4);
    ASSERT_EQ(Feed(&host, caller.hello()), Step::kSay);
    ASSERT_EQ(Feed(&caller, host.challenge()), Step::kDone);
    Confirm confirm = caller.confirm();
    reinterpret_cast<uint8_t*>(&confirm)[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    EXPECT_EQ(Feed(&host, confirm), Step::kRefused) << "bit " << bit << " of the confirmation";
  }
}

TEST_F(Handshakes, RefuseARecordedConversation) {
  Host first = MakeHost(3);
  Caller caller = MakeCaller(4);
  ASSERT_EQ(Feed(&first, caller.hello()), Step::kSay);
  ASSERT_EQ(Feed(&caller, first.challenge()), Step::kDone);
  ASSERT_EQ(Feed(&first, caller.confirm()), Step::kDone);
  Host second = MakeHost(7);
  ASSERT_EQ(Feed(&second, caller.hello()), Step::kSay);
  EXPECT_EQ(Feed(&second, caller.confirm()), Step::kRefused);
  EXPECT_EQ(second.why(), "with a repeated hello");
}

TEST_F(Handshakes, RefuseAHelloToAnotherListener) {
  const Caller caller = MakeCaller(4);
  listener_.fill(2);
  Host host = MakeHost(3);
  EXPECT_EQ(Feed(&host, caller.hello()), Step::kRefused);
}

TEST_F(Handshakes, RefuseRanksAndSizesThatCannotBe) {
  const auto why = [this](auto change) {
    const Hello before = hello_;
    change(&hello_);
    const Caller caller = MakeCaller(4);
    hello_ = before;
    Host host = MakeHost(3);
    EXPECT_EQ(Feed(&host, caller.hello()), Step::kRefused);
    return host.why();
  };
  EXPECT_EQ(why([](Hello* h) { h->from = 4; }), "that said it was rank 4 for rank 1");
  EXPECT_EQ(why([](Hello* h) { h->to = 0; }), "that said it was rank 2 for rank 0");
  EXPECT_NE(why([](Hello* h) { h->window_bytes = kMaxWindowBytes + 1; }), "");
  EXPECT_NE(why([](Hello* h) { h->signal_count = kMaxSignals + 1; }), "");
}

TEST_F(Handshakes, NameTheOtherVersion) {
  Hello hello = MakeCaller(4).hello();
  hello.version = 9;
  Host host = MakeHost(3);
  ASSERT_EQ(Feed(&host, hello), Step::kRefused);
  EXPECT_EQ(host.why(), "with wire version 9, wanted 1: use one version of Starling on all ranks");
}

}  // namespace
}  // namespace sl::transport_tcp

// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/id_desk.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

TEST(IdOfAddress, IsTheSameOnAllRanks) {
  for (const char* text : {"192.0.2.1:4711", "[fd00::1]:4711"}) {
    const Result<RendezvousId> one = IdOfAddress(text);
    const Result<RendezvousId> other = IdOfAddress(text);
    ASSERT_TRUE(one.ok() && other.ok()) << one.status().message();
    EXPECT_TRUE(IsAddressOnly(one.value()));
    EXPECT_EQ(ToText(one.value().rendezvous.net), text);
    const Result<RendezvousId> decoded = DecodeId(EncodeId(one.value()));
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded.value().nonce(), other.value().nonce());
    EXPECT_EQ(decoded.value().secret, other.value().secret);
  }
}

TEST(IdOfAddress, DiffersWithAddressAndPort) {
  const uint64_t nonce = IdOfAddress("192.0.2.1:4711").value().nonce();
  EXPECT_NE(IdOfAddress("192.0.2.1:4712").value().nonce(), nonce);
  EXPECT_NE(IdOfAddress("192.0.2.2:4711").value().nonce(), nonce);
}

TEST(IdOfAddress, SaysWhatToWriteInstead) {
  for (const char* text : {"", ":", "4711", "192.0.2.1", "192.0.2.1:", ":4711", "192.0.2.1:0", "192.0.2.1:65536",
                           "192.0.2.1:47x", "[fd00::1]"}) {
    const Result<RendezvousId> id = IdOfAddress(text);
    ASSERT_EQ(id.status().code(), SL_ERR_CONFIG) << text;
    EXPECT_NE(id.status().message().find("comm.rendezvous (NCCL_COMM_ID) is \"" + std::string(text) + "\""),
              std::string::npos)
        << id.status().message();
  }
}

}  // namespace
}  // namespace sl::kernel

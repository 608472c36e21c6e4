// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/unique_id.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

RendezvousId Sample() {
  RendezvousId id{};
  id.magic = kIdMagic;
  id.version = kIdVersion;
  id.rendezvous.extension = 42;
  id.rendezvous.net.family = 4;
  id.rendezvous.net.port = 4711;
  EXPECT_TRUE(FillRandom(id.secret).ok());
  return id;
}

TEST(UniqueId, SurvivesEncoding) {
  const RendezvousId id = Sample();
  const Result<RendezvousId> decoded = DecodeId(EncodeId(id));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded.value().nonce(), 42u);
  EXPECT_EQ(decoded.value().rendezvous.net, id.rendezvous.net);
  EXPECT_EQ(decoded.value().secret, id.secret);
}

TEST(UniqueId, IsRefusedWhenAnyFieldIsImpossible) {
  EXPECT_EQ(DecodeId(sl_unique_id_t{}).status().code(), SL_ERR_INVALID);
  RendezvousId id = Sample();
  id.version = 1;
  EXPECT_EQ(DecodeId(EncodeId(id)).status().code(), SL_ERR_MISMATCH);
  id = Sample();
  id.rendezvous.extension = 0;
  EXPECT_EQ(DecodeId(EncodeId(id)).status().code(), SL_ERR_INVALID);
  id = Sample();
  id.rendezvous.net.family = 5;
  EXPECT_EQ(DecodeId(EncodeId(id)).status().code(), SL_ERR_INVALID);
  id = Sample();
  id.secret = {};
  EXPECT_EQ(DecodeId(EncodeId(id)).status().code(), SL_ERR_INVALID);
  sl_unique_id_t bytes = EncodeId(Sample());
  bytes.bytes[SL_UNIQUE_ID_BYTES - 1] = 1;
  EXPECT_EQ(DecodeId(bytes).status().code(), SL_ERR_INVALID);
}

}  // namespace
}  // namespace sl::kernel

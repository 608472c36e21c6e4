// SPDX-License-Identifier: Apache-2.0
#include "sdk/proof.h"

#include <gtest/gtest.h>

namespace sl {
namespace {

// The vector of the paper's appendix: key 00..0f, input 00..0e.
TEST(Proof, MatchesThePublishedVector) {
  uint8_t key[16];
  uint8_t input[15];
  for (uint8_t i = 0; i < 16; ++i) key[i] = i;
  for (uint8_t i = 0; i < 15; ++i) input[i] = i;
  EXPECT_EQ(SipHash(key, input, sizeof input), 0xa129ca6149be45e5ull);
}

TEST(Proof, IsTheSameBytesOnEveryMachine) {
  uint8_t secret[32];
  for (uint8_t i = 0; i < 32; ++i) secret[i] = i % 16;
  uint8_t input[15];
  for (uint8_t i = 0; i < 15; ++i) input[i] = i;
  const Proof half = {0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1, 0xe5, 0x45, 0xbe, 0x49, 0x61, 0xca, 0x29, 0xa1};
  EXPECT_EQ(MakeProof(secret, input, sizeof input), half);
}

TEST(Proof, DiffersWhenOneBitOfSecretOrTextDoes) {
  uint8_t secret[32] = {};
  uint8_t text[20] = {};
  const Proof proof = MakeProof(secret, text, sizeof text);
  EXPECT_TRUE(SameProof(proof, MakeProof(secret, text, sizeof text)));
  secret[31] ^= 1;
  EXPECT_FALSE(SameProof(proof, MakeProof(secret, text, sizeof text)));
  secret[31] ^= 1;
  text[19] ^= 0x80;
  EXPECT_FALSE(SameProof(proof, MakeProof(secret, text, sizeof text)));
  EXPECT_FALSE(SameProof(MakeProof(secret, text, 19), MakeProof(secret, text, 18)));
}

}  // namespace
}  // namespace sl

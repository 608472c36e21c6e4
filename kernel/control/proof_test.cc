// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/proof.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

// RFC 4231 pads keys of up to 64 bytes with zeros, and so does a secret of 32 bytes: test case 2, key "Jefe".
TEST(Proof, IsTheHmacOfTheStandard) {
  Secret secret{};
  const std::string key = "Jefe";
  std::copy(key.begin(), key.end(), secret.begin());
  const std::string text = "what do ya want for nothing?";
  const Proof proof = MakeProof(secret, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  const Proof expected = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24,
                          0x26, 0x08, 0x95, 0x75, 0xc7, 0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27,
                          0x39, 0x83, 0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_EQ(proof, expected);
  EXPECT_TRUE(IsSame(proof, expected));
}

TEST(Proof, DiffersWithSecretPurposeAndNumbers) {
  Secret secret{};
  const Secret first = DeriveSecret(secret, "transport", 1, 2);
  EXPECT_FALSE(IsSame(first, DeriveSecret(secret, "split", 1, 2)));
  EXPECT_FALSE(IsSame(first, DeriveSecret(secret, "transport", 2, 2)));
  EXPECT_FALSE(IsSame(first, DeriveSecret(secret, "transport", 1, 1)));
  secret[31] = 1;
  EXPECT_FALSE(IsSame(first, DeriveSecret(secret, "transport", 1, 2)));
}

}  // namespace
}  // namespace sl::kernel

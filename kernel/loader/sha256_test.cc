// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/sha256.h"

#include <gtest/gtest.h>

namespace sl::kernel {
namespace {

std::string Hash(const std::string& text, size_t piece) {
  Sha256 sha;
  for (size_t i = 0; i < text.size(); i += piece) sha.Update(text.data() + i, std::min(piece, text.size() - i));
  return sha.Finish();
}

// The examples of FIPS 180-4.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Hash("", 1));
  EXPECT_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", Hash("abc", 3));
  EXPECT_EQ("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            Hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56));
  EXPECT_EQ("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", Hash(std::string(1000000, 'a'), 4096));
}

TEST(Sha256, PiecesDoNotMatter) {
  const std::string text(1000, 'x');
  for (const size_t piece : {1u, 7u, 63u, 64u, 65u, 999u}) EXPECT_EQ(Hash(text, 1000), Hash(text, piece));
}

}  // namespace
}  // namespace sl::kernel

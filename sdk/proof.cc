// SPDX-License-Identifier: Apache-2.0
#include "sdk/proof.h"

#include <bit>
#include <cstring>

namespace sl {
namespace {

uint64_t Word(const uint8_t* bytes) {
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | bytes[i];
  return word;
}

void StoreWord(uint64_t word, uint8_t* bytes) {
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
}

struct SipState {
  uint64_t a, b, c, d;

  void Round() {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }

  void Absorb(uint64_t word) {
    d ^= word;
    Round();
    Round();
    a ^= word;
  }
};

}  // namespace

uint64_t SipHash(const uint8_t key[16], const void* data, size_t bytes) {
  const uint64_t low = Word(key);
  const uint64_t high = Word(key + 8);
  SipState state{low ^ 0x736f6d6570736575ull, high ^ 0x646f72616e646f6dull, low ^ 0x6c7967656e657261ull,
                 high ^ 0x7465646279746573ull};
  const uint8_t* next = static_cast<const uint8_t*>(data);
  for (size_t left = bytes; left >= 8; left -= 8, next += 8) state.Absorb(Word(next));
  uint8_t last[8] = {};
  std::memcpy(last, next, bytes % 8);
  last[7] = static_cast<uint8_t>(bytes);
  state.Absorb(Word(last));
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.Round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

Proof MakeProof(const uint8_t secret[32], const void* data, size_t bytes) {
  Proof proof;
  StoreWord(SipHash(secret, data, bytes), proof.data());
  StoreWord(SipHash(secret + 16, data, bytes), proof.data() + 8);
  return proof;
}

bool SameProof(const Proof& a, const Proof& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace sl

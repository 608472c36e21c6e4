// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/proof.h"

#include "kernel/control/frame.h"
#include "kernel/loader/sha256.h"

namespace sl::kernel {
namespace {

constexpr size_t kBlockBytes = 64;

Proof HashPadded(const Secret& secret, uint8_t pad, std::span<const uint8_t> message) {
  std::array<uint8_t, kBlockBytes> key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = pad ^ (i < secret.size() ? secret[i] : 0);
  Sha256 hash;
  hash.Update(key.data(), key.size());
  hash.Update(message.data(), message.size());
  return hash.FinishBytes();
}

}  // namespace

Proof MakeProof(const Secret& secret, std::span<const uint8_t> message) {
  return HashPadded(secret, 0x5c, HashPadded(secret, 0x36, message));
}

bool IsSame(const Proof& a, const Proof& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

Secret DeriveSecret(const Secret& secret, const std::string& purpose, uint64_t nonce, uint64_t number) {
  Writer text;
  text.PutText(purpose);
  text.Put(nonce);
  text.Put(number);
  return MakeProof(secret, text.bytes());
}

}  // namespace sl::kernel

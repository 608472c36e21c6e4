// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/unique_id.h"

#include <cstring>

#include "kernel/comm/frame.h"
#include "kernel/loader/sha256.h"

namespace sl::kernel {

sl_unique_id_t EncodeId(const RendezvousId& id) {
  sl_unique_id_t bytes{};
  std::memcpy(bytes.bytes, &id, sizeof(id));
  return bytes;
}

Result<RendezvousId> DecodeId(const sl_unique_id_t& bytes) {
  RendezvousId id;
  std::memcpy(static_cast<void*>(&id), bytes.bytes, sizeof(id));
  if (id.magic != kIdMagic) {
    return Status(SL_ERR_INVALID, "the unique id was not made by this library; pass the 128 bytes that rank 0 got");
  }
  if (id.version != kIdVersion) {
    return Status(SL_ERR_MISMATCH, "the unique id has version " + std::to_string(id.version) + ", this library knows " +
                                       std::to_string(kIdVersion) + "; use one version of starling on all ranks");
  }
  return id;
}

Proof MakeProof(const Secret& secret, const std::string& role, uint64_t nonce, uint64_t number) {
  Writer text;
  text.Put(secret);
  text.PutText(role);
  text.Put(nonce);
  text.Put(number);
  Sha256 hash;
  hash.Update(text.bytes().data(), text.bytes().size());
  const std::string digits = hash.Finish();
  Proof proof;
  for (size_t i = 0; i < proof.size(); ++i) {
    proof[i] = static_cast<uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  return proof;
}

bool IsSame(const Proof& a, const Proof& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

Secret DeriveSecret(const Secret& secret, uint64_t nonce) { return MakeProof(secret, "derive", nonce, 0); }

}  // namespace sl::kernel

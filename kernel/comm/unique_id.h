// SPDX-License-Identifier: Apache-2.0
//
// What the 128 bytes of a unique id mean. They hold a secret: whoever knows them may join.
#pragma once

#include <array>
#include <string>

#include "kernel/comm/local_socket.h"
#include "kernel/topo/host.h"
#include "sl_runtime.h"

namespace sl::kernel {

using Secret = std::array<uint8_t, 32>;

// The fields of an id, in this order, little-endian; the rest of the 128 bytes is zero.
struct RendezvousId {
  uint32_t magic;
  uint32_t version;
  uint64_t nonce;         // names the rendezvous; not secret
  HostId host;            // where it is served
  SocketName rendezvous;  // the listener
  Secret secret;
  uint32_t process;  // for messages
};
static_assert(sizeof(RendezvousId) <= SL_UNIQUE_ID_BYTES);

constexpr uint32_t kIdMagic = 0x44494c53;  // "SLID"
constexpr uint32_t kIdVersion = 1;

sl_unique_id_t EncodeId(const RendezvousId& id);
// SL_ERR_INVALID when the bytes are no id of this version.
Result<RendezvousId> DecodeId(const sl_unique_id_t& id);

// Shows knowledge of `secret` for one use: SHA-256 over the secret, the role and the numbers.
using Proof = std::array<uint8_t, 32>;
Proof MakeProof(const Secret& secret, const std::string& role, uint64_t nonce, uint64_t number);
// In constant time.
bool IsSame(const Proof& a, const Proof& b);

// A secret for a child communicator that only members of the parent can know.
Secret DeriveSecret(const Secret& secret, uint64_t nonce);

}  // namespace sl::kernel

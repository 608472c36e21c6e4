// SPDX-License-Identifier: Apache-2.0
//
// What the 128 bytes of a unique id mean. They hold a secret: whoever knows them may join.
#pragma once

#include "kernel/control/endpoint.h"
#include "kernel/control/proof.h"
#include "sl_runtime.h"

namespace sl::kernel {

// The fields of an id, in this order, little-endian; the rest of the 128 bytes is zero.
struct RendezvousId {
  uint32_t magic;
  uint32_t version;
  Endpoint rendezvous;  // its extension is the nonce of the communicator
  Secret secret;

  uint64_t nonce() const { return rendezvous.extension; }
};
static_assert(sizeof(RendezvousId) == 104 && sizeof(RendezvousId) <= SL_UNIQUE_ID_BYTES);

constexpr uint32_t kIdMagic = 0x44494c53;  // "SLID"
constexpr uint32_t kIdVersion = 2;

sl_unique_id_t EncodeId(const RendezvousId& id);
// SL_ERR_INVALID when the bytes are no id, SL_ERR_MISMATCH when they are one of another version.
Result<RendezvousId> DecodeId(const sl_unique_id_t& id);

}  // namespace sl::kernel

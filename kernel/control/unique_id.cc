// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/unique_id.h"

#include <algorithm>
#include <cstring>

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
  const bool zeros_behind =
      std::all_of(std::begin(bytes.bytes) + sizeof(id), std::end(bytes.bytes), [](auto byte) { return byte == 0; });
  const bool has_secret = std::any_of(id.secret.begin(), id.secret.end(), [](uint8_t byte) { return byte != 0; });
  if (!IsWellFormed(id.rendezvous) || id.nonce() == 0 || !has_secret || !zeros_behind) {
    return Status(SL_ERR_INVALID,
                  "the unique id was damaged on its way; pass the 128 bytes that rank 0 got, unchanged");
  }
  return id;
}

}  // namespace sl::kernel

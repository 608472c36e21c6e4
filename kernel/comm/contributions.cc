// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/contributions.h"

namespace sl::kernel {

void PutContribution(Writer* out, uint32_t rank, std::span<const uint8_t> bytes) {
  out->Put(rank);
  out->PutBytes(bytes);
}

Result<std::vector<Bytes>> ReadContributions(std::span<const uint8_t> all, uint32_t size) {
  // The least that each takes: before anything is allocated for it.
  if (all.size() / (2 * sizeof(uint32_t)) < size) return Status(SL_ERR_LINK_CORRUPT, "an all-gather that lacks ranks");
  std::vector<Bytes> contributions(size);
  std::vector<bool> seen(size);
  Reader in(all);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t rank = in.Get<uint32_t>();
    Bytes bytes = in.GetBytes();
    if (!in.ok() || rank >= size || seen[rank]) {
      return Status(SL_ERR_LINK_CORRUPT, "a broken all-gather on the control tree");
    }
    seen[rank] = true;
    contributions[rank] = std::move(bytes);
  }
  if (!in.empty()) return Status(SL_ERR_LINK_CORRUPT, "an all-gather with more than its ranks");
  return contributions;
}

}  // namespace sl::kernel

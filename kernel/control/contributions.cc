// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/contributions.h"

namespace sl::kernel {

void PutContribution(Writer* out, uint32_t rank, std::span<const uint8_t> bytes) {
  out->Put(rank);
  out->PutBytes(bytes);
}

Result<Contributions> Contributions::Read(Bytes all, uint32_t size) {
  // The least that each takes: before anything is allocated for it. A frame is no longer than a place can say.
  if (all.size() / (2 * sizeof(uint32_t)) < size || all.size() > kMaxFrameBytes) {
    return Status(SL_ERR_LINK_CORRUPT, "an all-gather that lacks ranks, or is too long");
  }
  Contributions read;
  read.places_.resize(size);
  std::vector<bool> seen(size);
  Reader in(all);
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t rank = in.Get<uint32_t>();
    const uint32_t bytes = in.Get<uint32_t>();
    const auto offset = static_cast<uint32_t>(all.size() - in.rest().size());
    if (!in.Skip(bytes) || rank >= size || seen[rank]) {
      return Status(SL_ERR_LINK_CORRUPT, "a broken all-gather on the control tree");
    }
    seen[rank] = true;
    read.places_[rank] = {offset, bytes};
  }
  if (!in.empty()) return Status(SL_ERR_LINK_CORRUPT, "an all-gather with more than its ranks");
  read.all_ = std::move(all);
  return read;
}

}  // namespace sl::kernel

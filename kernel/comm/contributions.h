// SPDX-License-Identifier: Apache-2.0
//
// What an all-gather on the control tree carries: for each of some ranks its number and its bytes.
#pragma once

#include "kernel/comm/frame.h"

namespace sl::kernel {

// Appends what `rank` contributes.
void PutContribution(Writer* out, uint32_t rank, std::span<const uint8_t> bytes);

// Those of all `size` ranks, in their order. SL_ERR_LINK_CORRUPT unless each is there once and nothing else is.
Result<std::vector<Bytes>> ReadContributions(std::span<const uint8_t> all, uint32_t size);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// What a rank does of a collective that goes from callers' buffers to callers' buffers (kernels/direct/direct.h).
#pragma once

#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "sl_algorithm.h"

namespace sl::algo_symmetric {

// When all buffers are in reach. Of a vector with a root, the root owns no block: its wire is busy with everybody
// else's. `pushes`: gathers and all-to-alls store to their peers instead of loading from them; ranks agree on it. Not
// cut over CUDA blocks yet.
kernels::DirectWork DirectOf(const sl_op_t& op, uint32_t rank, uint32_t size, bool pushes);

// How many bytes the rank moves or reduces.
uint64_t BytesDrawn(const kernels::DirectWork& work, uint32_t size);
// Has it drawn by the warps of so many CUDA blocks, or in bulk by some threads of each, since of long work those that
// get less of the wire would be waited for. Ranks need not agree on it.
void Draw(uint32_t size, uint32_t blocks, bool in_bulk, kernels::DirectWork* work);

// Which buffers of a rank its peers touch.
struct Reached {
  bool send;
  bool recv;
};
Reached ReachedOf(const sl_op_t& op, uint32_t rank, bool pushes);

}  // namespace sl::algo_symmetric

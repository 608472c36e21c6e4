// SPDX-License-Identifier: Apache-2.0
//
// The cut of rounds through a slice's slots: what the staged family does, and what direct ones fall back to where a
// buffer is out of reach.
#pragma once

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/families/family.h"

namespace sl::algo_symmetric {

// The rounds, on a grid within these bounds.
Choice CutRounds(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings, uint32_t cut_blocks,
                 uint32_t fewest_blocks = 1);

// Kernels that go in rounds, by what they compute.
KernelRef RoundsKernel(bool reduces, sl_datatype_t datatype);

}  // namespace sl::algo_symmetric

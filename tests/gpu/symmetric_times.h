// SPDX-License-Identifier: Apache-2.0
//
// Times of the kernels of algo-symmetric, printed as tables. Part of gpu.symmetric_kernels.
#pragma once

#include <cstdint>

namespace sl::gpu_test {

// Every family by size.
void Bench(uint32_t ranks);
// The direct one by the number of blocks and the direction of its moves.
void Sweep(uint32_t ranks);
// Direct reductions by type.
void SweepTypes(uint32_t ranks);
// Small operations by when kernels let the next one in.
void SweepTriggers(uint32_t ranks);

}  // namespace sl::gpu_test

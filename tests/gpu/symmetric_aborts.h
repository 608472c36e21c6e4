// SPDX-License-Identifier: Apache-2.0
//
// Aborts in every phase of the kernels of algo-symmetric.
#pragma once

#include <cstdint>
#include <string>

#include "tests/gpu/verdict.h"

namespace sl::gpu_test {

// Queues operations of all sizes on all ranks but one, which stops short, aborts them at moments of chance, and starts
// over, so many rounds. All must end within `bound_seconds`. Says, too, what kernels were waiting for when they gave
// up. A kernel that does not end ends the program.
void CheckAborts(Verdicts* verdicts, uint32_t ranks, const std::string& family, uint32_t dawdle_ns, uint32_t rounds,
                 double bound_seconds);

}  // namespace sl::gpu_test

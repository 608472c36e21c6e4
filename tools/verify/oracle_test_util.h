// SPDX-License-Identifier: Apache-2.0
//
// What plans really do: the engine runs them over links in memory, with numbers, ranks polled in random order and no
// more room on links than the plans declare. It shares nothing with the verifier but the plans.
#pragma once

#include <cstdint>
#include <string>

#include "tools/verify/verify.h"

namespace sl::verify {

// Runs the case `runs` times; "" when every result is right each time, all links are empty, nothing else was written,
// and, where the case declares it, all ranks have the same bits. The type must be float64.
std::string RunForReal(const Case& test, uint32_t runs, uint32_t seed);

}  // namespace sl::verify

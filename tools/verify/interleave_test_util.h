// SPDX-License-Identifier: Apache-2.0
//
// Executes plans with numbers, one step of one lane at a time, lanes drawn at random: every interleaving can come up,
// also those between lanes of a rank, which the engine polls in a fixed order. Written from the words of sl_algorithm.h
// alone; sums are modulo 2^64, so a wrong combination of random inputs shows.
#pragma once

#include <cstdint>
#include <string>

#include "tools/verify/verify.h"

namespace sl::verify {

// Executes a case `runs` times on links of `credits` chunks; operations that sum, or only move. "" when every result is
// right each time and all links are empty; else what went wrong.
std::string Interleave(const Case& test, uint32_t credits, uint32_t runs, uint32_t seed);

}  // namespace sl::verify

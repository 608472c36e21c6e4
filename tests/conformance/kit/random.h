// SPDX-License-Identifier: Apache-2.0
//
// Numbers that follow from a seed alone, the same on every machine: what a fuzzing test draws from (SplitMix64, Steele,
// Lea and Flood 2014).
#pragma once

#include <cstdint>

namespace sl::conform {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  // In [0, limit); limit > 0. The bias of a modulus does not matter here.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  // In [least, most].
  uint64_t Between(uint64_t least, uint64_t most) { return least + Below(most - least + 1); }

 private:
  uint64_t state_;
};

}  // namespace sl::conform

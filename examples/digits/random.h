// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace digits {

// A stream of random numbers that is the same on every machine and every rank. The standard fixes the bits of mt19937
// and seed_seq, but not those of its distributions and of std::shuffle, so these few lines replace them.
class Random {
 public:
  // Streams of different `purpose` are independent, so that one more draw for one purpose disturbs no other.
  Random(uint32_t seed, uint32_t purpose) {
    std::seed_seq sequence{seed, purpose};
    engine_.seed(sequence);
  }

  // A whole number in [0, bound).
  size_t Below(size_t bound) { return static_cast<size_t>((uint64_t{engine_()} * bound) >> 32); }

  // A number in [-limit, limit).
  float Symmetric(float limit) {
    const float unit = static_cast<float>(engine_() >> 8) * 0x1p-24f;  // 24 bits are exact in fp32.
    return limit * (2.0f * unit - 1.0f);
  }

  // Every order is equally likely (Fisher and Yates).
  template <typename T>
  void Shuffle(std::vector<T>& values) {
    for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[Below(left)]);
  }

 private:
  std::mt19937 engine_;
};

}  // namespace digits

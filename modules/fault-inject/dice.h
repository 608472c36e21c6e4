// SPDX-License-Identifier: Apache-2.0
//
// Decisions: a function of the seed, the connection, the kind of fault and the number of the put, and of nothing else.
// So the same seed gives the same faults, however late a put is retried, whatever other faults are on, and whatever
// was changed at run time in between.
#pragma once

#include <cstdint>

namespace sl::fault_inject {

enum class Throw : uint64_t { kDrop = 1, kDuplicate, kReorder, kTruncate, kTruncateTo, kCorrupt, kCorruptAt };

class Dice {
 public:
  Dice(uint64_t seed, uint32_t rank, uint32_t peer, uint32_t lane, uint64_t tag)
      : key_(Mix(Mix(Mix(seed) ^ (uint64_t{rank} << 32 | peer)) ^ (tag << 8) ^ lane)) {}

  uint64_t Roll(Throw kind, uint64_t number) const {
    return Mix(key_ ^ Mix(number ^ static_cast<uint64_t>(kind) << 56));
  }
  bool Chance(Throw kind, uint64_t number, uint64_t per_million) const {
    return per_million != 0 && Roll(kind, number) % 1'000'000 < per_million;
  }

 private:
  // The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
  static uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }

  uint64_t key_;
};

}  // namespace sl::fault_inject

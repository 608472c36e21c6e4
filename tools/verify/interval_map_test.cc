// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/interval_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sl::verify {
namespace {

// Against an array: random assignments, updates and visits of every range.
TEST(IntervalMap, IsAnArray) {
  constexpr uint64_t kSize = 40;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    IntervalMap<int> map;
    std::vector<int> array(kSize, -1);  // -1: a gap
    for (int step = 1; step < 60; ++step) {
      uint64_t begin = random() % (kSize + 1), end = random() % (kSize + 1);
      if (begin > end) std::swap(begin, end);
      if (random() % 3 != 0) {
        map.Assign(begin, end, step);
        std::fill(array.begin() + static_cast<long>(begin), array.begin() + static_cast<long>(end), step);
      } else {
        map.Update(begin, end, [](int* value) { *value += 1000; });
        for (uint64_t i = begin; i < end; ++i) array[i] = (array[i] == -1 ? 0 : array[i]) + 1000;
      }
      uint64_t at = begin;
      map.ForEach(begin, end, [&](uint64_t from, uint64_t to, const int* value) {
        EXPECT_EQ(from, at);
        EXPECT_LT(from, to);
        for (uint64_t i = from; i < to; ++i) EXPECT_EQ(value == nullptr ? -1 : *value, array[i]);
        at = to;
      });
      EXPECT_EQ(at, end);
    }
    uint64_t at = 0;
    map.ForEach(0, kSize, [&](uint64_t from, uint64_t to, const int* value) {
      for (uint64_t i = from; i < to; ++i) EXPECT_EQ(value == nullptr ? -1 : *value, array[i]);
      at = to;
    });
    EXPECT_EQ(at, kSize);
  }
}

}  // namespace
}  // namespace sl::verify

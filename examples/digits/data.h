// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace digits {

inline constexpr size_t kPixels = 64;   // An image has 8 rows of 8 pixels.
inline constexpr size_t kClasses = 10;  // The digits 0 to 9.

struct Sample {
  std::array<float, kPixels> pixels;  // Scaled to [0, 1].
  size_t label;                       // The digit that the image shows.
};

struct Split {
  std::vector<Sample> train;
  std::vector<Sample> test;
};

// Reads a file of lines "pixel,…,pixel,label": 64 pixels from 0 to 16, then a label from 0 to 9.
// Throws std::runtime_error, with file and line, when the file cannot be read or says anything else.
std::vector<Sample> LoadSamples(const std::string& path);

// Sets a fifth of the samples, chosen by `seed`, aside for testing: 1,437 and 360 of the 1,797.
Split SplitSamples(std::vector<Sample> samples, uint32_t seed);

// A contiguous part [begin, end) of a list.
struct Shard {
  size_t begin;
  size_t end;
};

// Rank `rank`'s shard of `count` things: the shards cover all of them, once, and differ in length by at most one.
Shard ShardOf(size_t count, int rank, int size);

}  // namespace digits

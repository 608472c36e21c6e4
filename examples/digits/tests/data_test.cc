// SPDX-License-Identifier: Apache-2.0
#include "data.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <stdexcept>
#include <string>

#include "shell.h"

namespace digits {
namespace {

// What LoadSamples() says about a file with these lines; empty when it says nothing.
std::string Complaint(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "some.csv") << text;
  try {
    LoadSamples(folder / "some.csv");
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::string Line(int pixels, const std::string& label) {
  std::string line;
  for (int i = 0; i < pixels; ++i) line += "7,";
  return line + label + "\n";
}

TEST(Data, HoldsEveryImageOfTheSet) {
  const auto samples = LoadSamples(DIGITS_DATA);
  ASSERT_EQ(samples.size(), 1797u);
  std::array<int, kClasses> counts{};
  for (const Sample& sample : samples) ++counts[sample.label];
  EXPECT_EQ(counts, (std::array<int, kClasses>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  EXPECT_EQ(samples[0].label, 0u);
  EXPECT_EQ(samples[0].pixels[2], 5.0f / 16.0f);
}

TEST(Data, NamesFileAndLineWhenALineIsWrong) {
  EXPECT_NE(Complaint(Line(64, "3") + Line(63, "3")).find("some.csv:2: expected a whole number"), std::string::npos);
  EXPECT_NE(Complaint(Line(64, "3,4")).find("some.csv:1: expected 65 numbers, found more"), std::string::npos);
  EXPECT_NE(Complaint(Line(64, "10")).find("from 0 to 9, found '10'"), std::string::npos);
  EXPECT_NE(Complaint(Line(64, "x")).find("found 'x'"), std::string::npos);
  EXPECT_NE(Complaint("").find("at least 5 images"), std::string::npos);
}

TEST(Data, NamesTheRemedyWhenTheFileIsMissing) {
  try {
    LoadSamples("/nowhere/digits.csv");
    FAIL() << "a missing file was read";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--data FILE"), std::string::npos);
  }
}

TEST(Data, SplitsTheSameWayForTheSameSeed) {
  const auto samples = LoadSamples(DIGITS_DATA);
  const Split split = SplitSamples(samples, 1);
  EXPECT_EQ(split.train.size(), 1437u);
  EXPECT_EQ(split.test.size(), 360u);
  EXPECT_EQ(SplitSamples(samples, 1).test.front().pixels, split.test.front().pixels);
  EXPECT_NE(SplitSamples(samples, 2).test.front().pixels, split.test.front().pixels);
}

TEST(Shard, CoversEveryThingOnceWhenCountsAreUneven) {
  for (const size_t count : {0u, 1u, 3u, 29u, 64u}) {
    for (const int size : {1, 2, 3, 4, 7}) {
      size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Shard shard = ShardOf(count, rank, size);
        EXPECT_EQ(shard.begin, next);
        EXPECT_LE(shard.end - shard.begin, count / static_cast<size_t>(size) + 1);
        next = shard.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace digits

// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_point.h"

#include <gtest/gtest.h>

#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

GridOptions Small() { return {{"all_reduce", "alltoallv"}, {"eager"}, {"plain", "symmetric"}, {}, 8, 128}; }

TEST(BenchGrid, HoldsEverySizeOnceInOrder) {
  GridOptions options = Small();
  options.collectives.push_back("all_reduce");
  const std::vector<Point> grid = GridOf(options);
  ASSERT_EQ(grid.size(), 2u * 2u * 4u);
  EXPECT_EQ(grid[2], PointOf("all_reduce", "eager", "plain", 64));
  EXPECT_EQ(grid.back(), PointOf("alltoallv", "eager", "symmetric", 128));
  EXPECT_FALSE(grid[0].ctas);
}

TEST(BenchGrid, WalksTheWholeForEachBudget) {
  GridOptions options = Small();
  const size_t points = GridOf(options).size();
  options.ctas = {0, 16};
  const std::vector<Point> grid = GridOf(options);
  ASSERT_EQ(grid.size(), 2 * points);
  EXPECT_EQ(grid[points - 1].ctas, 0);
  EXPECT_EQ(grid[points].ctas, 16);
  EXPECT_TRUE(PointOf("all_gather", "graph", "symmetric", 8).MayHoldNoSms());
  EXPECT_FALSE(PointOf("all_gather", "graph", "plain", 8).MayHoldNoSms());
  EXPECT_FALSE(PointOf("reduce_scatter", "graph", "symmetric", 8).MayHoldNoSms());
  EXPECT_EQ(grid[points].bytes, grid[0].bytes);
  EXPECT_NE(grid[points], grid[0]);
  EXPECT_EQ(grid[0].Text(), "all_reduce of 8 bytes, eager, plain buffers, 0 blocks");
}

TEST(BenchGrid, SlicesAreTheWholeAndShareNothing) {
  GridOptions options = Small();
  const std::vector<Point> whole = GridOf(options);
  std::vector<Point> gathered;
  options.slices = 5;
  for (options.slice = 0; options.slice < options.slices; ++options.slice) {
    const std::vector<Point> part = GridOf(options);
    gathered.insert(gathered.end(), part.begin(), part.end());
  }
  EXPECT_EQ(gathered, whole);
}

TEST(BenchEffort, ReplaysGraphsAlone) {
  EXPECT_GT(EffortFor(PointOf("all_reduce", "graph", "plain", 8)).replays, 1);
  for (const char* issue : {"eager", "dependent"}) {
    const Effort effort = EffortFor(PointOf("all_reduce", issue, "plain", 8));
    EXPECT_EQ(effort.replays, 1) << issue;
    EXPECT_EQ(effort.operations, 400) << issue;
  }
}

TEST(BenchGrid, RefusesNamesThatDoNotExist) {
  EXPECT_THROW(PointOf("all_reduces", "eager", "plain", 8), tools::CommandError);
  EXPECT_THROW(PointOf("all_reduce", "lazy", "plain", 8), tools::CommandError);
  EXPECT_THROW(PointOf("all_reduce", "eager", "plane", 8), tools::CommandError);
}

}  // namespace
}  // namespace sl::bench

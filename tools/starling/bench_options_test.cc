// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_options.h"

#include <gtest/gtest.h>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_result.h"

namespace sl::tools {
namespace {

BenchOptions Parse(std::initializer_list<const char*> words) {
  return ParseBenchOptions(std::vector<std::string>(words.begin(), words.end()));
}

// The message of the usage error that `words` cause; empty when they cause none.
std::string UsageError(std::initializer_list<const char*> words) {
  try {
    Parse(words);
  } catch (const CommandError& error) {
    EXPECT_EQ(error.exit_code(), kExitUsage);
    return error.what();
  }
  return "";
}

TEST(BenchOptions, ReadsNcclTestsLetters) {
  const BenchOptions options = Parse({"all_reduce_perf",
                                      "-b",
                                      "8",
                                      "-e",
                                      "64M",
                                      "-f",
                                      "2",
                                      "-n",
                                      "5",
                                      "-w",
                                      "2",
                                      "-c",
                                      "0",
                                      "-d",
                                      "half",
                                      "-o",
                                      "max",
                                      "-r",
                                      "-1",
                                      "-R",
                                      "2",
                                      "-a",
                                      "3",
                                      "-J",
                                      "x.json",
                                      "-m4",
                                      "-z",
                                      "1",
                                      "-C",
                                      "1",
                                      "-I",
                                      "1",
                                      "--ranks",
                                      "4",
                                      "-y",
                                      "1"});
  EXPECT_EQ(options.collective, Collective::kAllReduce);
  EXPECT_EQ(options.min_bytes, 8u);
  EXPECT_EQ(options.max_bytes, 64u << 20);
  EXPECT_EQ(SizesOf(options).size(), 24u);
  EXPECT_EQ(options.iterations, 5);
  EXPECT_EQ(options.checks, 0);
  EXPECT_EQ(options.types, std::vector<DataType>{DataType::kHalf});
  EXPECT_EQ(options.ops, std::vector<RedOp>{RedOp::kMax});
  EXPECT_EQ(options.root, -1);
  EXPECT_EQ(options.average, Average::kMax);
  EXPECT_EQ(options.aggregate, 4);
  EXPECT_TRUE(options.cpu_time && options.per_iteration);
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.ignored, std::vector<std::string>{"-y"});
}

TEST(BenchOptions, StepsByBytesWithoutAFactor) {
  const BenchOptions options = Parse({"reduce", "-b", "1K", "-e", "3K", "-i", "1K"});
  EXPECT_EQ(SizesOf(options), (std::vector<size_t>{1024, 2048, 3072}));
}

TEST(BenchOptions, TakesNoOperatorWhereNothingIsReduced) {
  EXPECT_EQ(Parse({"all_gather", "-o", "all"}).ops, std::vector<RedOp>{RedOp::kNone});
  EXPECT_EQ(Parse({"all_reduce", "-o", "all", "-d", "all"}).ops.size(), 6u);
  EXPECT_EQ(Parse({"all_reduce", "-d", "all"}).types.size(), 12u);
}

TEST(BenchOptions, NamesWhatIsWrong) {
  EXPECT_NE(UsageError({"all_reduce", "-b", "8x"}).find("-b '8x'"), std::string::npos);
  EXPECT_NE(UsageError({"all_reduce", "-b", "-8"}), "");
  EXPECT_NE(UsageError({"all_reduce", "-b", "64M", "-e", "8"}).find("larger"), std::string::npos);
  EXPECT_NE(UsageError({"all_reduce", "-d", "f9"}).find("bfloat16"), std::string::npos);
  EXPECT_NE(UsageError({"all_reduce", "-o", "xor"}).find("mulsum"), std::string::npos);
  EXPECT_EQ(Parse({"all_to_all"}).collective, Collective::kAlltoAll) << "as profiles call it";
  EXPECT_NE(UsageError({"allreduce"}).find("reduce_scatter"), std::string::npos);
  EXPECT_NE(UsageError({"all_reduce", "-f", "0"}), "");
  EXPECT_NE(UsageError({"all_reduce", "-f", "1.5"}), "");
  EXPECT_NE(UsageError({"all_reduce", "--ranks", "0"}), "");
  EXPECT_NE(UsageError({"all_reduce", "--nonsense"}), "");
  EXPECT_NE(UsageError({"all_reduce", "--library", "/no/such/file"}).find("/no/such/file"), std::string::npos);
  EXPECT_NE(UsageError({}), "");
}

TEST(Shape, CountsBlocksPerRank) {
  const Shape gather = ShapeOf(Collective::kAllGather, 1 << 20, DataType::kFloat, 4);
  EXPECT_EQ(gather.send_count * 4, gather.recv_count);
  EXPECT_EQ(gather.bytes, 1u << 20);
  EXPECT_EQ(gather.in_place_send_stride, gather.send_count);
  const Shape odd = ShapeOf(Collective::kReduceScatter, 1 << 20, DataType::kFloat, 3);
  EXPECT_EQ(odd.recv_count % 4, 0u);  // 16 bytes
  EXPECT_EQ(odd.send_count, odd.recv_count * 3);
  const Shape tiny = ShapeOf(Collective::kAlltoAll, 8, DataType::kDouble, 8);
  EXPECT_EQ(tiny.param_count, 1u);
  EXPECT_EQ(tiny.bytes, 64u);
}

TEST(BusFactor, IsNcclTests) {
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kAlltoAll, 4), 0.75);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kBroadcast, 4), 1);
  EXPECT_DOUBLE_EQ(BusFactor(Collective::kSendRecv, 4), 1);
}

TEST(BenchTable, KeepsNcclTestsLines) {
  const BenchOptions options = Parse({"all_reduce", "-b", "8", "-e", "8"});
  BenchReport report;
  report.ranks = 2;
  Point point;
  point.bytes = 8;
  point.count = 2;
  point.op = RedOp::kSum;
  point.out_of_place.measured = point.out_of_place.checked = true;
  point.out_of_place.time_us = 12.345;
  point.out_of_place.busbw = 2;
  report.points.push_back(point);
  const std::string header = HeaderText(options, report);
  EXPECT_NE(
      header.find("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time"),
      std::string::npos);
  EXPECT_EQ(RowText(options, point),
            "           8             2     float     sum      -1    12.35    0.00    2.00       0"
            "      N/A     N/A     N/A     N/A\n");
  EXPECT_EQ(FooterText(options, report).find("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2\n"), 0u);
  report.points.front().out_of_place.wrong = 3;
  EXPECT_NE(FooterText(options, report).find("# Out of bounds values : 3 FAILED"), std::string::npos);
}

}  // namespace
}  // namespace sl::tools

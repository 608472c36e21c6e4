// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/measured.h"

#include <gtest/gtest.h>

#include "kernel/profile/profile.h"

namespace sl::kernel {
namespace {

constexpr char kHead[] = "profile_version = 1\n[measured]\nversion = 1\n";
constexpr char kCost[] = "[[measured.cost]]\nop = \"all_reduce\"\nranks = 4\nalgorithm = \"ring\"\n";

Result<Profile> Parse(const std::string& text) { return Profile::Parse(kHead + text, "p.toml"); }
std::string ErrorOf(const std::string& text) { return Parse(text).status().message(); }

TEST(Measured, IsReadAndSorted) {
  Result<Profile> profile =
      Parse("machine = \"a bench\"\ndate = \"2026-11-21\"\nmodules = [\"algo-ring 0.1.0\"]\n" + std::string(kCost) +
            "points = [[8, 100], [64, 200]]\n[[measured.cost]]\nop = \"all_reduce\"\nranks = 2\ndevice = \"cuda\"\n"
            "algorithm = \"tree\"\nhosts = 2\npoints = [[0, 1]]\n" +
            kCost + "hosts = 4\npoints = [[8, 5]]\n");
  ASSERT_TRUE(profile.ok()) << profile.status().message();
  const Measured& measured = profile.value().measured();
  EXPECT_EQ(measured.place, "p.toml:2:1");
  EXPECT_EQ(measured.machine, "a bench");
  EXPECT_EQ(measured.modules, std::vector<std::string>{"algo-ring 0.1.0"});
  ASSERT_EQ(measured.costs.size(), 3u);
  const CostCurve& first = measured.costs[0];
  EXPECT_EQ(first.op, uint32_t{SL_OP_ALL_REDUCE});
  EXPECT_EQ(first.algorithm, "ring");
  EXPECT_EQ(first.hosts, 1u);
  EXPECT_EQ(first.ranks, 4u);
  ASSERT_EQ(first.points.size(), 2u);
  EXPECT_EQ(first.points[1].bytes, 64u);
  EXPECT_EQ(first.points[1].time_ns, 200u);
  EXPECT_EQ(measured.costs[1].hosts, 4u);
  EXPECT_EQ(measured.costs[2].device_kind, 1u);
}

TEST(Measured, PrintedTextReadsBack) {
  const std::string cost = std::string(kCost) + "points = [[8, 100], [64, 200]]\n";
  const std::string text = Parse("machine = \"a \\\"bench\\\"\"\n" + cost).value().ToToml();
  Result<Profile> again = Profile::Parse(text, "q.toml");
  ASSERT_TRUE(again.ok()) << again.status().message() << text;
  EXPECT_EQ(again.value().measured().machine, "a \"bench\"");
  EXPECT_EQ(MeasuredToml(again.value().measured()),
            MeasuredToml(Parse("machine = \"a \\\"bench\\\"\"\n" + cost).value().measured()));
  EXPECT_EQ(MeasuredToml(Measured{}), "");
}

TEST(Measured, CostsAreSharedAndTheirOriginIsNot) {
  const std::string ring = std::string(kCost) + "points = [[8, 100]]\n";
  const std::string wide = std::string(kCost) + "hosts = 2\npoints = [[8, 90]]\n";
  const auto hash = [](const std::string& text) { return Parse(text).value().SharedHash(); };
  EXPECT_EQ(hash(ring), hash("machine = \"other\"\ndate = \"later\"\n" + ring));
  EXPECT_EQ(hash(ring + wide), hash(wide + ring));
  EXPECT_NE(hash(ring), hash(""));
  EXPECT_NE(hash(ring), hash(std::string(kCost) + "points = [[8, 101]]\n"));
  EXPECT_NE(hash(ring), hash(ring + wide));
}

TEST(Measured, MistakesHaveTheirPlace) {
  const std::string cost = kCost;
  const struct {
    std::string text;
    const char* error;
  } kCases[] = {
      {"machin = \"x\"\n", "p.toml:4:1: unknown key measured.machin; nearest is machine"},
      {"machine = 5\n", "p.toml:4:11: measured.machine must be a string, not an integer"},
      {"modules = \"x\"\n", "p.toml:4:11: measured.modules must be an array of strings, not a string"},
      {"cost = 7\n", "p.toml:4:8: measured.cost must be an array of tables, written [[measured.cost]], not an integer"},
      {cost, "p.toml:4:1: this cost has no points"},
      {cost + "points = []\n",
       "p.toml:8:10: measured.cost.points must be an array of 1 to 1024 pairs [bytes, nanoseconds]"},
      {cost + "points = [[8]]\n", "p.toml:8:11: a measured point must be a pair [bytes, nanoseconds]"},
      {cost + "points = [[8, 0]]\n",
       "p.toml:8:15: measured.cost.points nanoseconds is 0, but must be 1 to 4398046511104"},
      {cost + "points = [[8, 5], [8, 6]]\n",
       "p.toml:8:19: 8 bytes come after 8; order points by bytes, each size once"},
      {cost + "points = [[8, 5]]\nhosts = 3\n",
       "p.toml:4:1: this cost is of 4 ranks on 3 hosts, but costs are of hosts with equally many ranks"},
      {cost + "points = [[8, 5]]\ndevice = \"tpu\"\n",
       "p.toml:9:10: measured.cost.device is \"tpu\", but must be one of host, cuda"},
      {cost + "points = [[8, 5]]\nhost = 1\n", "p.toml:9:1: unknown key measured.cost.host; nearest is hosts"},
      {cost + "points = [[8, 5]]\n" + cost + "points = [[8, 6]]\n",
       "p.toml:9:1: this cost was stated at p.toml:4:1 already"},
      {"[[measured.cost]]\nop = \"recv\"\nranks = 2\nalgorithm = \"x\"\npoints = [[8, 5]]\n",
       "p.toml:5:6: a cost of send stands for recv, too; leave it out"},
  };
  for (const auto& one : kCases) EXPECT_EQ(ErrorOf(one.text), one.error) << one.text;
}

TEST(Measured, OtherVersionsAreRefused) {
  EXPECT_EQ(
      Profile::Parse("profile_version = 1\n[measured]\nversion = 2\n", "p.toml").status().message(),
      "p.toml:3:11: measured.version is 2, but this build reads version 1; measure again with starling bench --tune");
  EXPECT_EQ(Profile::Parse("profile_version = 1\n[measured]\n", "p.toml").status().message(),
            "p.toml:2:1: measured has no version; begin it with version = 1");
  EXPECT_EQ(Profile::Parse("profile_version = 1\nmeasured = 3\n", "p.toml").status().message(),
            "p.toml:2:12: measured must be a table, written [measured], not an integer");
}

}  // namespace
}  // namespace sl::kernel

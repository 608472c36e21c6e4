// SPDX-License-Identifier: Apache-2.0
// The command around the suites: choosing tests, exclusions, strictness, reports, exit codes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/conform/kit_run.h"

namespace sl::conform {
namespace {

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/sl-conform-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& text) {
    const std::string path = folder_ + "/exclusions.toml";
    std::ofstream(path) << text;
    return path;
  }
  std::string folder_;
};

constexpr char kBusyTest[] = "module/Life.QuiescesAtRest";
constexpr char kPureTest[] = "module/Query.IsPure";

std::string Exclude(const std::string& test, const std::string& kind) {
  return "[[exclude]]\ntest = \"" + test + "\"\nkind = \"" + kind + "\"\nreason = \"it holds a graph\"\n";
}

TEST_F(CommandTest, ListsTestsWithWhatTheyCheck) {
  const KitRun run = RunKit(BrokenModule("nothing"), {"--list", "--filter", "module/Query.*"});
  EXPECT_EQ(0, run.exit_code);
  EXPECT_NE(run.text.find(kPureTest), std::string::npos) << run.text;
  EXPECT_NE(run.text.find("the answer is constant"), std::string::npos) << run.text;
  EXPECT_EQ(run.text.find("module/Life"), std::string::npos) << run.text;
}

TEST_F(CommandTest, BadUsageIsTwo) {
  EXPECT_EQ(2, RunKit("/no/such.so", {}).exit_code);
  EXPECT_EQ(2, RunKit(BrokenModule("nothing"), {"--filter", "nothing/*"}).exit_code);
  EXPECT_EQ(2, RunKit(BrokenModule("nothing"), {"--frobnicate"}).exit_code);
  // A folder would read as a file that excuses nothing.
  const KitRun folder = RunKit(BrokenModule("nothing"), {"--exclusions", folder_});
  EXPECT_EQ(2, folder.exit_code);
  EXPECT_NE(folder.text.find("--exclusions " + folder_ + ": not a regular file"), std::string::npos) << folder.text;
  const KitRun missing = RunKit(BrokenModule("nothing"), {"--exclusions", folder_ + "/none"});
  EXPECT_EQ(2, missing.exit_code);
  EXPECT_NE(missing.text.find("/none: No such file or directory"), std::string::npos) << missing.text;
  std::string key = R"("\"")";
  for (int i = 0; i < 200000; ++i) key += ".a";
  const KitRun deep = RunKit(BrokenModule("nothing"), {"--exclusions", Write(key + " = 1\n")});
  EXPECT_EQ(2, deep.exit_code);
  EXPECT_NE(deep.text.find("exclusions.toml:1:1: a key more than 256 levels deep"), std::string::npos);
}

TEST_F(CommandTest, UnsupportedTestIsNotRunAndItsReasonReported) {
  const std::string file = Write(Exclude(kBusyTest, "unsupported"));
  const KitRun run = RunKit(BrokenModule("busy"), {"--strict", "--exclusions", file, "--filter", kBusyTest});
  EXPECT_EQ(0, run.exit_code) << run.text;
  EXPECT_EQ("excluded", EntryOf(run, kBusyTest)["verdict"]);
  EXPECT_EQ("it holds a graph", EntryOf(run, kBusyTest)["messages"][0]);
}

TEST_F(CommandTest, ExpectedFailureThatFailsIsGood) {
  const std::string file = Write(Exclude(kBusyTest, "expected_failure"));
  const KitRun run = RunKit(BrokenModule("busy"), {"--strict", "--exclusions", file, "--filter", kBusyTest});
  EXPECT_EQ(0, run.exit_code) << run.text;
  EXPECT_EQ("failed as expected", EntryOf(run, kBusyTest)["verdict"]);
}

TEST_F(CommandTest, ExpectedFailureThatPassesFailsWhenStrict) {
  const std::string file = Write(Exclude(kPureTest, "expected_failure"));
  const std::string module = BrokenModule("nothing");
  EXPECT_EQ(0, RunKit(module, {"--exclusions", file, "--filter", kPureTest}).exit_code);
  const KitRun run = RunKit(module, {"--strict", "--exclusions", file, "--filter", kPureTest});
  EXPECT_EQ(1, run.exit_code) << run.text;
  EXPECT_EQ("passed unexpectedly", EntryOf(run, kPureTest)["verdict"]);
}

TEST_F(CommandTest, ExclusionThatNamesNoTestFailsWhenStrict) {
  const std::string file = Write(Exclude("module/Query.WasRenamed", "unsupported"));
  const std::string module = BrokenModule("nothing");
  EXPECT_EQ(0, RunKit(module, {"--exclusions", file, "--filter", kPureTest}).exit_code);
  const KitRun run = RunKit(module, {"--strict", "--exclusions", file, "--filter", kPureTest});
  EXPECT_EQ(1, run.exit_code);
  EXPECT_NE(run.text.find("\"module/Query.WasRenamed\" names no test"), std::string::npos) << run.text;
}

TEST_F(CommandTest, ExclusionsNeedAReasonAndKnownKeys) {
  const std::string module = BrokenModule("nothing");
  const std::string silent = Write("[[exclude]]\ntest = \"*\"\nkind = \"unsupported\"\n");
  KitRun run = RunKit(module, {"--exclusions", silent});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("exclusions.toml:1:1: an exclusion needs reason"), std::string::npos) << run.text;
  run = RunKit(module, {"--exclusions", Write(Exclude("*", "flaky"))});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("kind is \"flaky\""), std::string::npos) << run.text;
  run = RunKit(module, {"--exclusions", Write(Exclude("*", "unsupported") + "why = \"x\"\n")});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("unknown key why"), std::string::npos) << run.text;
}

TEST_F(CommandTest, PreferredCompanionsAreNamesAndMayBeAbsent) {
  const std::string module = BrokenModule("nothing");
  KitRun run = RunKit(module, {"--strict", "--exclusions", Write("with = [\"not-here\"]\n"), "--filter", kPureTest});
  EXPECT_EQ(0, run.exit_code) << run.text;
  run = RunKit(module, {"--exclusions", Write("with = [7]\n")});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("exclusions.toml:1:9: with is a list of names"), std::string::npos) << run.text;
}

TEST_F(CommandTest, JUnitNamesFailuresAndEscapesThem) {
  const std::string path = folder_ + "/report.xml";
  RunKit(BrokenModule("busy"), {"--filter", "module/Life.Quiesces*", "--filter", kPureTest, "--junit", path});
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const std::string xml = text.str();
  EXPECT_NE(xml.find("<testsuite name=\"conform.busy\" tests=\"2\" failures=\"1\" skipped=\"0\""), std::string::npos)
      << xml;
  EXPECT_NE(xml.find("<failure message=\"failed\">quiesce gave timeout"), std::string::npos) << xml;
  EXPECT_NE(xml.find("classname=\"busy.module\" name=\"Query.IsPure\""), std::string::npos) << xml;
}

constexpr char kLeakTest[] = "module/Life.LeavesNoThreadOrDescriptor";

TEST_F(CommandTest, OptionsOfTheModuleAreSet) {
  const std::string module = BrokenModule("when_deep");
  EXPECT_EQ(0, RunKit(module, {"--filter", kLeakTest}).exit_code);
  KitRun run = RunKit(module, {"--filter", kLeakTest, "--set", "depth=9"});
  EXPECT_EQ(1, run.exit_code) << run.text;
  EXPECT_EQ("9", run.json["options"]["depth"]);
  EXPECT_NE(run.text.find(" --set 'depth=9' --seed 1\n"), std::string::npos) << run.text;
  const std::string file = Write("depth = 9\nlabel = \"a = b\"\n");
  run = RunKit(module, {"--filter", kLeakTest, "--options", file});
  EXPECT_EQ(1, run.exit_code) << run.text;
  EXPECT_EQ("a = b", run.json["options"]["label"]);
  EXPECT_EQ(0, RunKit(module, {"--filter", kLeakTest, "--options", file, "--set", "depth=3"}).exit_code);
}

TEST_F(CommandTest, OptionsThatTheModuleDoesNotTakeAreBadUsage) {
  const std::string module = BrokenModule("nothing");
  KitRun run = RunKit(module, {"--set", "depht=3"});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("nothing has no option depht; it has depth, label"), std::string::npos) << run.text;
  run = RunKit(module, {"--set", "depth=77"});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("option depth: \"77\" is not of its type or range"), std::string::npos) << run.text;
  EXPECT_EQ(2, RunKit(module, {"--set", "depth"}).exit_code);
  run = RunKit(module, {"--options", Write("[modules]\nx = 1\n")});
  EXPECT_EQ(2, run.exit_code);
  EXPECT_NE(run.text.find("modules is no value of an option; write name = value lines"), std::string::npos) << run.text;
}

TEST_F(CommandTest, EveryFailureIsNamedForAnotherRun) {
  const KitRun run = RunKit(BrokenModule("crashes"), {"--filter", "module/Life.Opens*"});
  EXPECT_EQ(1, run.exit_code);
  EXPECT_NE(run.text.find(" --filter 'module/Life.OpensAndCloses' --filter 'module/Life.OpensAgain' --seed 1\n"),
            std::string::npos)
      << run.text;
}

TEST_F(CommandTest, SeedIsReportedAndGivenOn) {
  const KitRun run = RunKit(BrokenModule("busy"), {"--filter", kBusyTest, "--seed", "77"});
  EXPECT_NE(run.text.find("; seed 77"), std::string::npos) << run.text;
  EXPECT_NE(run.text.find("--filter 'module/Life.QuiescesAtRest' --seed 77"), std::string::npos) << run.text;
}

}  // namespace
}  // namespace sl::conform

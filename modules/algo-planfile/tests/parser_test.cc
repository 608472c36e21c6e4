// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "modules/algo-planfile/plan_file.h"

namespace sl::algo_planfile {
namespace {

// Two ranks exchange their halves and give each other the sums.
const std::string kGood = R"(starling-plan 1
name halves            # a comment
collective all_reduce
ranks 2
blocks 2
credits 1
determinism rank

rank 0
lane 0
reserve 1 of send[1]
reduce outbox[1] = raw send[1]
put 1 of send[1]
wait 1 of send[0]
reduce recv[0] scratch[0] = inbox[1] op raw send[0] final of send[0]
release 1 of send[0]

rank 1
lane 1
repeat 3
  wait 0 of recv[0,1]
  copy recv[0,1] = inbox[0]
  release 0 of recv[0,1]
end
put 0 = recv[1]
)";
const std::string kWithScratch = "scratch 1\n";

std::string Good() {
  std::string text = kGood;
  text.insert(text.find("credits"), kWithScratch);
  return text;
}

// Good() with the first `from` replaced; the error that this makes.
std::string ErrorOf(const std::string& from, const std::string& to) {
  std::string text = Good();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const Result<PlanFile> plan = ParsePlan(text, "a.plan");
  EXPECT_FALSE(plan.ok()) << to << " was accepted";
  EXPECT_EQ(plan.status().code(), SL_ERR_CONFIG);
  return plan.status().message();
}

TEST(PlanFile, HoldsWhatTheTextSays) {
  const Result<PlanFile> read = ParsePlan(Good(), "a.plan");
  ASSERT_TRUE(read.ok()) << read.status().message();
  const PlanFile& plan = read.value();
  EXPECT_EQ(plan.name, "halves");
  EXPECT_EQ(plan.kind, SL_OP_ALL_REDUCE);
  EXPECT_EQ(plan.ranks, 2u);
  EXPECT_EQ(plan.blocks, 2u);
  EXPECT_EQ(plan.determinism, SL_DETERMINISM_RANK);
  EXPECT_EQ(plan.link_lanes, 2u);
  EXPECT_EQ(plan.waits, 3u);
  EXPECT_EQ(plan.puts, 1u);
  ASSERT_EQ(plan.lanes[0][0].steps.size(), 6u);
  const sl_step_t& sum = plan.lanes[0][0].steps[4];
  EXPECT_EQ(sum.kind, SL_STEP_REDUCE);
  EXPECT_EQ(sum.flags, SL_STEP_B_RAW | SL_STEP_FINAL);
  EXPECT_EQ(sum.a.peer, 1);
  EXPECT_EQ(sum.dst2.buffer, SL_BUFFER_SCRATCH);
  EXPECT_EQ(sum.shape.buffer, SL_BUFFER_SEND);
  const std::vector<sl_step_t>& second = plan.lanes[1][0].steps;
  ASSERT_EQ(second.size(), 5u);
  EXPECT_EQ(second[0].length, 3u);
  EXPECT_EQ(second[0].count, 3u);
  EXPECT_EQ(second[2].dst.block_step, 1);
  EXPECT_EQ(second[2].shape.block_step, 1) << "the first block that a step names is whose part it moves";
  EXPECT_EQ(second[4].a.buffer, SL_BUFFER_RECV);
  EXPECT_EQ(second[4].lane, 1u);
}

TEST(PlanFile, SaysFileLineAndRemedyOfWhatIsWrong) {
  EXPECT_EQ(ErrorOf("starling-plan 1", "starling-plan 2"),
            "a.plan:1: the version of the format is '2', it must be a number from 1 to 1");
  EXPECT_EQ(ErrorOf("ranks 2", "ranks two"),
            "a.plan:4: the number of ranks is 'two', it must be a number from 2 to 1024");
  EXPECT_EQ(ErrorOf("ranks 2", "ranks"), "a.plan:4: the line ends where the number of ranks must stand");
  EXPECT_EQ(ErrorOf("wait 1 of send[0]", "wait 1 for send[0]"),
            "a.plan:15: say whose part this step moves: `of send[BLOCK]`, `of recv[BLOCK]` or `of scratch[BLOCK]`");
  EXPECT_EQ(ErrorOf("put 1 of send[1]", "put 0 of send[1]"),
            "a.plan:14: rank 0 is this rank itself; links lead to other ranks");
  EXPECT_EQ(ErrorOf("= raw send[1]", "= raw send[2]"),
            "a.plan:13: block 2 is not there, this buffer has 2 on rank 0, from 0");
}

TEST(PlanFile, RefusesWhatIsNotInItsPlace) {
  const char* const wrong[][2] = {
      {"starling-plan 1", ""},
      {"name halves", "nam halves"},
      {"name halves", ""},
      {"all_reduce", "all_reduce now"},
      {"all_reduce", "broadcast"},
      {"all_reduce", "all_gather"},
      {"ranks 2", "ranks 3"},
      {"ranks 2", "ranks 99999999999999999999"},
      {"blocks 2", "root 0"},
      {"determinism rank", "determinism always"},
      {"determinism rank", "bytes 8 4"},
      {"rank 0", "rank 1"},
      {"lane 0\n", ""},
      {"lane 0", "lane -1"},
      {"rank 1", "rank 2"},
      {"reserve 1 of send[1]", "jump 1 of send[1]"},
      {"reserve 1 of send[1]", "reserve 1 of inbox[1]"},
      {"reduce outbox[1] =", "reduce inbox[1] ="},
      {"reduce outbox[1] =", "reduce send[0] ="},
      {"reduce outbox[1] =", "reduce outbox[2] ="},
      {"= inbox[1]", "= outbox[1]"},
      {"scratch[0]", "scratch[1]"},
      {"send[0] final", "send[0] last"},
      {"repeat 3", "repeat 0"},
      {"repeat 3", "repeat 3\nrepeat 2"},
      {"copy recv[0,1] = inbox[0]", "copy recv[0,] = inbox[0]"},
      {"copy recv[0,1] = inbox[0]", "copy recv[0,1] = inbox[0,1]"},
      {"copy recv[0,1] = inbox[0]", "copy recv[0,1] = raw inbox[0]"},
      {"copy recv[0,1] = inbox[0]", "copy recv[0 = inbox[0]"},
      {"end\n", ""},
      {"put 0 = recv[1]", "end"},
      {"put 0 = recv[1]", "rank 2"},
  };
  for (const auto& [from, to] : wrong) EXPECT_EQ(ErrorOf(from, to).rfind("a.plan:", 0), 0u) << from << " -> " << to;
  EXPECT_FALSE(ParsePlan("", "a.plan").ok());
  EXPECT_FALSE(ParsePlan("starling-plan 1\n", "a.plan").ok());
}

// Whatever a file holds, reading it ends with a plan or a message; the sanitizers watch the rest.
TEST(PlanFile, SurvivesAnyBytes) {
  std::mt19937 random(7);
  const std::string good = Good();
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, good, random() % good.size(), random() % 30);
          break;
      }
    }
    const Result<PlanFile> plan = ParsePlan(text, "a.plan");
    if (plan.ok()) {
      EXPECT_EQ(plan.value().lanes.size(), plan.value().ranks);
    } else {
      EXPECT_EQ(plan.status().message().rfind("a.plan:", 0), 0u);
    }
  }
}

class PlanFolder : public ::testing::Test {
 protected:
  PlanFolder() : folder_(std::filesystem::temp_directory_path() / ("plans." + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~PlanFolder() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  const std::filesystem::path folder_;
};

TEST_F(PlanFolder, IsReadInTheOrderOfNamesAfterWhatStandsBeforeIt) {
  Write("b.plan", Good());
  Write("a.plan", Good());
  Write("notes.txt", "not a plan");
  const std::string first = Write("z.plan.kept", Good());
  const auto plans = LoadPlans(first + "::" + folder_.string());
  ASSERT_TRUE(plans.ok()) << plans.status().message();
  ASSERT_EQ(plans.value().size(), 3u);
  EXPECT_EQ(plans.value()[0].path, first);
  EXPECT_EQ(plans.value()[1].path, (folder_ / "a.plan").string());
  EXPECT_TRUE(LoadPlans("").value().empty());
}

TEST_F(PlanFolder, RefusesWhatIsNoPlanFile) {
  EXPECT_EQ(LoadPlans(folder_.string()).status().code(), SL_ERR_NOT_FOUND);
  EXPECT_EQ(LoadPlans((folder_ / "none").string()).status().code(), SL_ERR_NOT_FOUND);
  EXPECT_EQ(LoadPlans("/dev/null").status().code(), SL_ERR_CONFIG);
  const std::string large = Write("large", "");
  std::filesystem::resize_file(large, kMaxFileBytes + 1);
  EXPECT_EQ(LoadPlans(large).status().code(), SL_ERR_CONFIG);
}

}  // namespace
}  // namespace sl::algo_planfile

// SPDX-License-Identifier: Apache-2.0
//
// Collectives with settings of their own (ncclCollConfig_t), on host memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "nccl_starling.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr size_t kCount = 1000;

std::string ServedBy(ncclComm_t comm) {
  char text[512] = {};
  EXPECT_EQ(ncclStarlingServedBy(comm, text, sizeof(text)), ncclSuccess);
  return std::string(text).substr(0, std::string(text).find('\t'));
}

ncclCollConfig_t Selecting(const char* selection, int force = 1) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.algSelection = selection;
  config.forceAlgSelection = force;
  return config;
}

// Sums the ranks' numbers + 1, and says what served it.
std::string Reduce(const Team& team, ncclComm_t comm, const ncclCollConfig_t* config) {
  std::vector<int> values(kCount, team.rank() + 1);
  EXPECT_EQ(ncclAllReduceConfig(values.data(), values.data(), kCount, ncclInt32, ncclSum, comm, nullptr, config),
            ncclSuccess)
      << ncclGetLastError(nullptr);
  const int wanted = team.size() * (team.size() + 1) / 2;
  EXPECT_EQ(values.front(), wanted);
  EXPECT_EQ(values.back(), wanted);
  return ServedBy(comm);
}

TEST(CallConfig, ChoosesTheAlgorithmOfOneCall) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const std::string usual = Reduce(team, comm, nullptr);
    for (const char* name : {"ring", "tree", "direct", "RING_SIMPLE", "tree_s"}) {
      const ncclCollConfig_t config = Selecting(name);
      const std::string wanted = std::string(name).substr(0, 1) == "R" ? "ring" : std::string(name).substr(0, 4);
      for (int i = 0; i < 2; ++i) EXPECT_EQ(Reduce(team, comm, &config).substr(0, 4), wanted.substr(0, 4)) << name;
      EXPECT_EQ(Reduce(team, comm, nullptr), usual);
    }
    const ncclCollConfig_t others = Selecting("^ring + ^symmetric, tree");
    const std::string other = Reduce(team, comm, &others);
    EXPECT_TRUE(other != "ring" && other != "symmetric") << other;
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(CallConfig, RefusesASelectionThatNothingSatisfiesOnAllRanksAndGoesOn) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const std::string usual = Reduce(team, comm, nullptr);
    const ncclCollConfig_t forced = Selecting("nvls");
    int value = 1;
    EXPECT_EQ(ncclAllReduceConfig(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr, &forced), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("no algorithm of \"nvls\" serves all_reduce of 1 int32"));
    EXPECT_TRUE(LastErrorHas("what could: "));
    EXPECT_TRUE(LastErrorHas("ring ("));
    const ncclCollConfig_t wrong = Selecting("(ring)");
    EXPECT_EQ(ncclAllReduceConfig(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr, &wrong), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("no selection of algorithms"));
    const ncclCollConfig_t wished = Selecting("nvls", 0);
    EXPECT_EQ(Reduce(team, comm, &wished), usual);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(CallConfig, FollowsARuleForThisOneCall) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const std::string usual = Reduce(team, comm, nullptr);
    ncclConfigExt_t foreign{nullptr, {7, 7}, {}};
    ncclConfigExt_t rule{&foreign, {NCCL_STARLING_VENDOR_ID, NCCL_STARLING_OPTION_RULE}, {}};
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    config.ext = &rule;
    rule.val.s = "algorithm = \"tree\"";
    EXPECT_EQ(Reduce(team, comm, &config), "tree");
    rule.val.s = "algorithm = \"tree\"\nmin_bytes = 1000000";
    EXPECT_EQ(Reduce(team, comm, &config), usual) << "it does not apply";
    rule.val.s = "algorithm = 5";
    int value = 1;
    EXPECT_EQ(ncclAllReduceConfig(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr, &config), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("select.algorithm"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Every collective, outside and inside a group, with settings that change nothing but who serves it.
TEST(CallConfig, GivesEveryCollectiveItsRightResult) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const ncclCollConfig_t config = Selecting("^symmetric");
    const int mine = team.rank() + 1;
    for (const bool in_group : {false, true}) {
      const int pair[2] = {10 * mine, 10 * mine + 1};
      int all = mine, broadcast = mine, reduced = 0, scattered = 0, part = 0;
      int gathered[2] = {}, to_all[2] = {}, collected[2] = {};
      if (in_group) {
        NCCL_OK(ncclGroupStart());
      }
      NCCL_OK(ncclAllReduceConfig(&all, &all, 1, ncclInt32, ncclSum, comm, nullptr, &config));
      NCCL_OK(ncclBroadcastConfig(&broadcast, &broadcast, 1, ncclInt32, 1, comm, nullptr, &config));
      NCCL_OK(ncclReduceConfig(&mine, &reduced, 1, ncclInt32, ncclMax, 0, comm, nullptr, &config));
      NCCL_OK(ncclAllGatherConfig(&mine, gathered, 1, ncclInt32, comm, nullptr, &config));
      NCCL_OK(ncclReduceScatterConfig(pair, &part, 1, ncclInt32, ncclSum, comm, nullptr, &config));
      NCCL_OK(ncclAlltoAllConfig(pair, to_all, 1, ncclInt32, comm, nullptr, &config));
      NCCL_OK(ncclGatherConfig(&mine, collected, 1, ncclInt32, 1, comm, nullptr, &config));
      NCCL_OK(ncclScatterConfig(pair, &scattered, 1, ncclInt32, 0, comm, nullptr, &config));
      if (in_group) {
        NCCL_OK(ncclGroupEnd());
      }
      EXPECT_EQ(all, 3);
      EXPECT_EQ(broadcast, 2);
      EXPECT_EQ(reduced, team.rank() == 0 ? 2 : 0);
      EXPECT_EQ(gathered[0] * 10 + gathered[1], 12);
      EXPECT_EQ(part, team.rank() == 0 ? 30 : 32);
      EXPECT_EQ(to_all[0] * 100 + to_all[1], team.rank() == 0 ? 1020 : 1121);
      EXPECT_EQ(collected[0] * 10 + collected[1], team.rank() == 1 ? 12 : 0);
      EXPECT_EQ(scattered, 10 + team.rank());
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(CallConfig, HasNoEventOnHostMemory) {
  RunProcesses(1, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    int value = 1;
    config.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&value);
    EXPECT_EQ(ncclAllReduceConfig(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr, &config), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("events are recorded on GPUs"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(CallConfig, HandsTagsToObserversWithTheNumberOfTheOperation) {
  static const std::string modules = std::getenv("STARLING_MODULE_PATH");
  const std::string mark = ::testing::TempDir() + "tags-" + std::to_string(getpid());
  unlink(mark.c_str());
  const std::string folders = modules + ":" + SL_HOSTILE_DIR + "/keeps";
  const Environment path("STARLING_MODULE_PATH", folders.c_str());
  const Environment told("SL_TEST_MARK", mark.c_str());
  const Environment often("STARLING_EVENTS_DRAIN_MS", "1");
  RunProcesses(1, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    Reduce(team, comm, nullptr);
    config.userProfilerTag = 77;
    Reduce(team, comm, &config);
    NCCL_OK(ncclGroupStart());
    int values[3] = {};
    for (int& value : values) {
      ++config.userProfilerTag;
      NCCL_OK(ncclAllReduceConfig(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr,
                                  &value == &values[1] ? nullptr : &config));
    }
    NCCL_OK(ncclGroupEnd());
    std::stringstream text;
    EXPECT_TRUE(WaitUntil(10, [&] {
      text.str("");
      text.clear();  // a file that is empty yet has failed it
      text << std::ifstream(mark).rdbuf();
      return text.str().find("operation 5") != std::string::npos;
    }));
    EXPECT_EQ(text.str(), "rank 0 operation 2 tag 77\nrank 0 operation 3 tag 78\nrank 0 operation 5 tag 80\n");
    NCCL_OK(ncclCommDestroy(comm));
  });
  unlink(mark.c_str());
}

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// Algorithms that mean harm. Those that do not come to be: the communicator is refused, and the error names them and
// nobody else. Those that estimate differently on different ranks: they are named as soon as a rank waits. Those that
// throw: the program says where, and goes on or ends in order.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

struct Hostile {
  const char* kind;
  ncclResult_t result;
  const char* words;
};

class HostileAlgorithm : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileAlgorithm, IsNamedByTheRefusedCommunicator) {
  const std::string modules = std::getenv("STARLING_MODULE_PATH");
  const std::string folders = modules + ":" + SL_HOSTILE_DIR + "/" + GetParam().kind;
  setenv("STARLING_MODULE_PATH", folders.c_str(), 1);
  const Environment alone("STARLING_LAYERS", "");  // the checker would end it first
  RunProcesses(1, [](Team& team) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 1, team.MakeId(), 0), GetParam().result);
    const std::string text = ncclGetLastError(nullptr);
    EXPECT_NE(text.find(GetParam().words), std::string::npos) << text;
  });
  setenv("STARLING_MODULE_PATH", modules.c_str(), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, HostileAlgorithm,
    ::testing::Values(Hostile{"silent", ncclSystemError, "algorithm hostile cannot be created: status -201, "},
                      Hostile{"nothing", ncclInternalError, "algorithm hostile said that it was created, and is not"}),
    [](const auto& hostile) { return std::string(hostile.param.kind); });

class UnevenAlgorithm : public ::testing::TestWithParam<bool> {};

TEST_P(UnevenAlgorithm, IsNamedByTheRankThatWaits) {
  const std::string modules = std::getenv("STARLING_MODULE_PATH");
  setenv("STARLING_MODULE_PATH", (modules + ":" + SL_HOSTILE_DIR + "/uneven").c_str(), 1);
  RunProcesses(2, [](Team& team) {
    if (GetParam()) setenv("NCCL_HOSTID", std::to_string(team.rank()).c_str(), 1);
    const ncclComm_t comm = team.MakeComm();
    const float mine = 1;
    float sum = 0;
    const ncclResult_t result = ncclAllReduce(&mine, &sum, 1, ncclFloat, ncclSum, comm, nullptr);
    if (team.rank() == 1) {
      EXPECT_NE(result, ncclSuccess);
      EXPECT_TRUE(
          LastErrorHas("operation #1 (all_reduce of 1 float32, sum): two ranks have chosen different algorithms"));
      EXPECT_TRUE(LastErrorHas(" hostile; one of them estimates differently on different ranks: forbid it"));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
  setenv("STARLING_MODULE_PATH", modules.c_str(), 1);
}

// The program, and all that it says.
std::pair<int, std::string> Starling(const std::string& arguments) {
  const std::string command = std::getenv("SL_TEST_BUILD_DIR") + ("/bin/starling " + arguments);
  FILE* pipe = popen(("timeout 50 " + command + " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> chunk;
  while (const size_t got = fread(chunk.data(), 1, chunk.size(), pipe)) text.append(chunk.data(), got);
  const int ended = pclose(pipe);
  return {WIFEXITED(ended) ? WEXITSTATUS(ended) : -1, text};
}

struct Throwing {
  std::string function;
  const char* said;
  int explained = 0;  // exit code: one that comes to be is passed over
};

class ThrowingAlgorithmIn : public ::testing::TestWithParam<Throwing> {};

TEST_P(ThrowingAlgorithmIn, IsNamedByTheCommandsThatAskIt) {
  const std::string modules = std::getenv("STARLING_MODULE_PATH");
  const std::string folder = std::string(SL_HOSTILE_DIR) + "/throwing";
  const Environment alone("STARLING_LAYERS", "");
  for (const std::string thrown : {"", " a number"}) {
    const Environment in("SL_TEST_THROWS_IN", (GetParam().function + thrown).c_str());
    const std::string said = GetParam().said + (thrown.empty() ? ": no manners\n" : std::string("\n"));
    const auto [verified, verify] = Starling("verify --ranks 2 --collective all_reduce --algorithm hostile --module " +
                                             folder + "/algorithm-throwing.so");
    EXPECT_EQ(verified, 1) << verify;
    EXPECT_NE(verify.find(said), std::string::npos) << verify;
    setenv("STARLING_MODULE_PATH", (modules + ":" + folder).c_str(), 1);
    const auto [explained, explain] = Starling("explain all_reduce 64");
    setenv("STARLING_MODULE_PATH", modules.c_str(), 1);
    EXPECT_EQ(explained, GetParam().explained) << explain;
    // Nobody needs a plan to explain.
    EXPECT_EQ(explain.find(said) != std::string::npos, GetParam().function != "plan") << explain;
  }
}

// The function lies on the data path; the runtime catches it, and the module is named, not the operation.
TEST(ThrowingAlgorithm, IsNamedByTheOperationThatItLaunches) {
  const std::string modules = std::getenv("STARLING_MODULE_PATH");
  const Environment alone("STARLING_LAYERS", "");
  const Environment in("SL_TEST_THROWS_IN", "launch");
  setenv("STARLING_MODULE_PATH", (modules + ":" + SL_HOSTILE_DIR + "/throwing").c_str(), 1);
  const auto [code, text] = Starling("bench all_reduce --ranks 2 -b 64 -e 64 -n 1 -w 1");
  setenv("STARLING_MODULE_PATH", modules.c_str(), 1);
  EXPECT_EQ(code, 1) << text;
  EXPECT_NE(text.find("hostile: it threw in launch: no manners"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Functions, ThrowingAlgorithmIn,
                         ::testing::Values(Throwing{"open",
                                                    "/algorithm-throwing.so: cannot be opened: it threw in open"},
                                           Throwing{"demand", "it threw in demand"},
                                           Throwing{"create", "cannot be created: it threw in create", 1},
                                           Throwing{"estimate", "it threw in estimate"},
                                           Throwing{"plan", "no plan: plan() of rank 0: it threw in plan"},
                                           Throwing{"destroy", "algorithm hostile: it threw in destroy"}),
                         [](const auto& throwing) { return throwing.param.function; });

INSTANTIATE_TEST_SUITE_P(Hosts, UnevenAlgorithm, ::testing::Bool(),
                         [](const auto& several) { return several.param ? "Several" : "One"; });

}  // namespace
}  // namespace sl::integration

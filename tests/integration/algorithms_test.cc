// SPDX-License-Identifier: Apache-2.0
//
// Algorithms that mean harm. Those that do not come to be: the communicator is refused, and the error names them and
// nobody else. Those that estimate differently on different ranks: they are named as soon as a rank waits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

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

INSTANTIATE_TEST_SUITE_P(Hosts, UnevenAlgorithm, ::testing::Bool(),
                         [](const auto& several) { return several.param ? "Several" : "One"; });

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// Algorithms that do not come to be: the communicator is refused, and the error names them and nobody else.
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

}  // namespace
}  // namespace sl::integration

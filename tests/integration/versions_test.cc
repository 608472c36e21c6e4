// SPDX-License-Identifier: Apache-2.0
//
// Two versions of an algorithm module in one process: rules send operations to the one or the other, and both are
// right.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "nccl_starling.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// What served an all-reduce of `count` floats: "algorithm<tab>module and version<tab>reason".
std::string ServedBy(const Team& team, ncclComm_t comm, size_t count) {
  std::vector<float> values(count, static_cast<float>(team.rank()));
  EXPECT_EQ(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(values.front(), 3.0f);
  EXPECT_EQ(values.back(), 3.0f);
  char text[512] = {};
  EXPECT_EQ(ncclStarlingServedBy(comm, text, sizeof(text)), ncclSuccess);
  return text;
}

class Versions : public ::testing::Test {
 protected:
  Versions() {
    std::ofstream(path_) << "profile_version = 1\n[modules.algo-ring]\nversion = \"<99\"\n"
                            "[modules.next]\nmodule = \"algo-ring\"\nversion = \">=99\"\n"
                            "[[select]]\nmax_bytes = 1024\nalgorithm = \"ring\"\n"
                            "[[select]]\nalgorithm = \"next.ring\"\n";
  }
  ~Versions() override { unlink(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "versions-" + std::to_string(getpid()) + ".toml";
};

TEST_F(Versions, OfOneModuleServeSideBySide) {
  const std::string folders = std::string(std::getenv("STARLING_MODULE_PATH")) + ":" + SL_VERSIONS_DIR;
  const Environment modules("STARLING_MODULE_PATH", folders.c_str());
  const Environment profile("STARLING_PROFILE", path_.c_str());
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    for (int times = 0; times < 3; ++times) {
      const std::string small = ServedBy(team, comm, 256);
      EXPECT_EQ(small.find("ring\talgo-ring 0."), 0u) << small;
      const std::string large = ServedBy(team, comm, 100'000);
      EXPECT_EQ(large.find("next.ring\tnext 99.0.0\t"), 0u) << large;
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
  });
}

}  // namespace
}  // namespace sl::integration

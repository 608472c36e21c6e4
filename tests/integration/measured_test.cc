// SPDX-License-Identifier: Apache-2.0
//
// Measured costs of a profile in a whole job: they are obeyed, results stay right, and ranks with other costs are told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "nccl_starling.h"
#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// A profile in which `best` takes a nanosecond for an all-reduce of 2 ranks up to 1 KiB, and others a thousand.
class CostProfile {
 public:
  explicit CostProfile(const std::string& best)
      : path_(::testing::TempDir() + "costs-" + best + "-" + std::to_string(getpid()) + ".toml") {
    std::ofstream file(path_);
    file << "profile_version = 1\n[measured]\nversion = 1\n";
    for (const std::string algorithm : {"direct", "ring", "symmetric", "tree"}) {
      const int time_ns = algorithm == best ? 1 : 1000;
      file << "[[measured.cost]]\nop = \"all_reduce\"\nranks = 2\nalgorithm = \"" << algorithm << "\"\npoints = [[0, "
           << time_ns << "], [1024, " << time_ns << "]]\n";
    }
  }
  ~CostProfile() { unlink(path_.c_str()); }
  CostProfile(const CostProfile&) = delete;
  CostProfile& operator=(const CostProfile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  const std::string path_;
};

// What served an all-reduce of `count` floats, "algorithm<tab>module<tab>reason".
std::string ServedBy(const Team& team, ncclComm_t comm, size_t count) {
  std::vector<float> values(count, static_cast<float>(team.rank()));
  EXPECT_EQ(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  EXPECT_EQ(values.front(), 1.0f);
  EXPECT_EQ(values.back(), 1.0f);
  char text[512] = {};
  EXPECT_EQ(ncclStarlingServedBy(comm, text, sizeof(text)), ncclSuccess);
  return text;
}

class Measured : public ::testing::TestWithParam<const char*> {};

TEST_P(Measured, CostsDecideWhereTheySpeak) {
  const std::string best = GetParam();
  const CostProfile costs(best);
  const Environment profile("STARLING_PROFILE", costs.path());
  RunProcesses(2, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const std::string inside = ServedBy(team, comm, 256);
    EXPECT_EQ(inside.substr(0, inside.find('\t')), best);
    EXPECT_NE(inside.find(" measured"), std::string::npos) << inside;
    const std::string outside = ServedBy(team, comm, 257);
    EXPECT_EQ(outside.find(" measured"), std::string::npos) << outside;
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Measured, ::testing::Values("direct", "ring", "tree"),
                         [](const auto& best) { return std::string(best.param); });

TEST(MeasuredCosts, ThatDifferBetweenRanksAreToldWhenTheyMeet) {
  const CostProfile ring("ring");
  const CostProfile tree("tree");
  RunProcesses(2, [&](Team& team) {
    const Environment profile("STARLING_PROFILE", team.rank() == 0 ? ring.path() : tree.path());
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, team.size(), id, team.rank()), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("has another effective profile (costs-"));
    team.Barrier();
  });
}

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// Observers that block, throw, fail and lie: operations go on, results are right, and the job ends as it would without.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

class HostileObserver : public ::testing::TestWithParam<const char*> {};

void Reduce(const Team& team, ncclComm_t comm, int times) {
  for (int i = 0; i < times; ++i) {
    const size_t count = i % 10 == 0 ? 100'000 : 8;
    std::vector<float> values(count, static_cast<float>(team.rank() + i));
    NCCL_OK(ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, nullptr));
    ASSERT_EQ(values.front(), static_cast<float>(2 * i + 1));
    ASSERT_EQ(values.back(), static_cast<float>(2 * i + 1));
  }
}

TEST_P(HostileObserver, HarmsNoOperation) {
  static const std::string modules = std::getenv("STARLING_MODULE_PATH");  // unset after the first test
  const std::string kind = GetParam();
  const std::string mark = ::testing::TempDir() + "hostile-" + kind + "-" + std::to_string(getpid());
  unlink(mark.c_str());
  const std::string folders = modules + ":" + SL_HOSTILE_DIR + "/" + kind;
  const Environment path("STARLING_MODULE_PATH", folders.c_str());
  const Environment told("SL_TEST_MARK", mark.c_str());
  const Environment alone("STARLING_LAYERS", "");  // the checker would end who lies
  const Environment often("STARLING_EVENTS_DRAIN_MS", "1");
  const Environment small("STARLING_EVENTS_RING_RECORDS", "16");
  RunProcesses(2, [&](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    Reduce(team, comm, 20);
    EXPECT_TRUE(WaitUntil(10, [&] { return access(mark.c_str(), F_OK) == 0; })) << "the observer was never called";
    Reduce(team, comm, 200);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
  });
  unlink(mark.c_str());
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostileObserver,
                         ::testing::Values("blocks", "throws", "throws_at_once", "fails", "lies"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// Many ranks in one process. How long it takes is printed, and measured on a quiet machine; a test only bounds it.
#include <cstdio>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kRanks = 256;

TEST(Scale, HundredsOfRanksOfOneProcessMeetAndPart) {
  const TeamOptions options{.seconds = 50};
  RunThreads(
      kRanks,
      [](Team& team) {
        const double begin = Seconds();
        const ncclComm_t comm = team.MakeComm();
        ASSERT_NE(comm, nullptr);
        if (team.rank() == 0) std::printf("%d ranks of one process: %.2f s\n", kRanks, Seconds() - begin);
        int count = 0;
        NCCL_OK(ncclCommCount(comm, &count));
        EXPECT_EQ(count, kRanks);
        NCCL_OK(ncclCommFinalize(comm));
        NCCL_OK(ncclCommDestroy(comm));
      },
      options);
}

}  // namespace
}  // namespace sl::integration

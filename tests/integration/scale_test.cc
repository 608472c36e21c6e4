// SPDX-License-Identifier: Apache-2.0
//
// Many ranks in one process. How long it takes is printed, and measured on a quiet machine; a test only bounds it.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

constexpr int kRanks = 256;

TEST(Scale, HundredsOfRanksOfOneProcessMeetAndPart) {
  RunThreads(kRanks, [](Team& team) {
    const double begin = Seconds();
    const ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    if (team.rank() == 0) std::printf("%d ranks of one process: %.2f s\n", kRanks, Seconds() - begin);
    int count = 0;
    NCCL_OK(ncclCommCount(comm, &count));
    EXPECT_EQ(count, kRanks);
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Memory of this process that no file backs.
double AnonymousKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stod(line.substr(8));
  }
  return 0;
}

// What a rank of a communicator of that size takes.
double KibPerRank(int ranks) {
  const double before = AnonymousKib();
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(ncclCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  const double after = AnonymousKib();
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  return (after - before) / ranks;
}

TEST(Scale, ARankOfManyTakesNoMoreMemoryThanTwoOfFew) {
  RunProcesses(1, [](Team&) {
    KibPerRank(2);  // what a process has once
    const double few = KibPerRank(8);
    const double many = KibPerRank(512);
    std::printf("a rank of 8 takes %.0f KiB, one of 512 %.0f KiB\n", few, many);
    EXPECT_LE(many, 2 * few);
  });
}

}  // namespace
}  // namespace sl::integration

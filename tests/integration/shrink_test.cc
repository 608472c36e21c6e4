// SPDX-License-Identifier: Apache-2.0
//
// ncclCommShrink: NVIDIA's two published uses (ranks that are no longer wanted, ranks that died), every way of calling
// it, and what happens when ranks do not agree.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// Far above what it takes, so that a busy machine passes, and far below the two minutes that ranks wait for each other.
constexpr double kNoticeSeconds = 10;

TeamOptions MayDie(int rank) { return {.may_die = 1u << rank}; }

ncclResult_t Shrink(ncclComm_t parent, std::vector<int> excluded, ncclComm_t* child, int flags = NCCL_SHRINK_DEFAULT) {
  return ncclCommShrink(parent, excluded.data(), static_cast<int>(excluded.size()), child, nullptr, flags);
}

bool IsIn(int rank, const std::vector<int>& ranks) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// Sums and gathers the numbers that `members` had in the parent: their order is kept, nobody else takes part.
void ExpectMembers(ncclComm_t comm, int number, const std::vector<int>& members) {
  int size = 0;
  int rank = -1;
  NCCL_OK(ncclCommCount(comm, &size));
  NCCL_OK(ncclCommUserRank(comm, &rank));
  ASSERT_EQ(size, static_cast<int>(members.size()));
  EXPECT_EQ(members[static_cast<size_t>(rank)], number);
  std::vector<int> gathered(members.size(), -1);
  NCCL_OK(ncclAllGather(&number, gathered.data(), 1, ncclInt32, comm, nullptr));
  EXPECT_EQ(gathered, members);
  constexpr size_t kCount = 100'000;
  const std::vector<float> mine(kCount, static_cast<float>(number + 1));
  std::vector<float> sum(kCount);
  NCCL_OK(ncclAllReduce(mine.data(), sum.data(), kCount, ncclFloat32, ncclSum, comm, nullptr));
  float expected = 0;
  for (const int member : members) expected += static_cast<float>(member + 1);
  EXPECT_EQ(sum, std::vector<float>(kCount, expected));
}

void End(ncclComm_t comm) {
  NCCL_OK(ncclCommFinalize(comm));
  NCCL_OK(ncclCommDestroy(comm));
}

// NVIDIA's first use: the job goes on with fewer ranks.
TEST(Shrink, LeavesOutRanksThatAreNoLongerWanted) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    if (team.rank() != 2) {
      ncclComm_t child = nullptr;
      NCCL_OK(Shrink(parent, {2}, &child));
      ExpectMembers(child, team.rank(), {0, 1, 3});
      End(child);
    }
    ExpectMembers(parent, team.rank(), {0, 1, 2, 3});  // nothing happened to it
    End(parent);
  });
}

void WorkUntilItFails(ncclComm_t comm, const std::string& culprit) {
  std::vector<float> a(1 << 20, 1), b(1 << 20);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    result = ncclAllReduce(a.data(), b.data(), a.size(), ncclFloat32, ncclSum, comm, nullptr);
  }
  EXPECT_EQ(result, ncclRemoteError);
  EXPECT_TRUE(LastErrorHas(culprit));
}

class KilledRank : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Each, KilledRank, testing::Values(0, 1, 3));

// NVIDIA's second use: a rank is lost in mid-operation, the others go on without it. Rank 0 was the root of the
// parent's control tree, rank 1 an inner node, rank 3 a leaf.
TEST_P(KilledRank, IsLeftOutByTheOthers) {
  const int victim = GetParam();
  std::vector<int> survivors = {0, 1, 2, 3};
  std::erase(survivors, victim);
  RunProcesses(
      4,
      [&](Team& team) {
        const ncclComm_t parent = team.MakeComm();
        ASSERT_NE(parent, nullptr);
        if (team.rank() == victim) {
          std::thread([] {
            usleep(50'000);  // in the middle of the others' work
            kill(getpid(), SIGKILL);
          }).detach();
        }
        WorkUntilItFails(parent, "rank " + std::to_string(victim));
        ncclComm_t child = nullptr;
        const double begin = Seconds();
        NCCL_OK(Shrink(parent, {victim}, &child, NCCL_SHRINK_ABORT));
        EXPECT_LT(Seconds() - begin, kNoticeSeconds);
        NCCL_OK(ncclCommAbort(parent));
        ExpectMembers(child, team.rank(), survivors);
        End(child);
      },
      MayDie(victim));
}

TEST(Shrink, OfABrokenParentAsksForTheAbortFlag) {
  RunProcesses(
      3,
      [](Team& team) {
        const ncclComm_t parent = team.MakeComm();
        team.Barrier();
        if (team.rank() == 1) raise(SIGKILL);
        WorkUntilItFails(parent, "rank 1");
        ncclComm_t child = parent;
        EXPECT_EQ(Shrink(parent, {1}, &child), ncclRemoteError);
        EXPECT_TRUE(LastErrorHas("is shrunk with the abort flag"));
        EXPECT_EQ(child, nullptr);
        NCCL_OK(Shrink(parent, {1}, &child, NCCL_SHRINK_ABORT));
        ExpectMembers(child, team.rank(), {0, 2});
        End(child);
        NCCL_OK(ncclCommAbort(parent));
      },
      MayDie(1));
}

// Operations that wait for a rank that lives, but will never call them.
TEST(Shrink, EndsOutstandingOperationsWhenItIsToAbort) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    if (team.rank() == 1) {
      team.Barrier();
      NCCL_OK(ncclCommAbort(parent));
      return;
    }
    HostStream stream;
    std::vector<float> a(1 << 18, 1), b(1 << 18);
    for (int i = 0; i < 3; ++i) {
      NCCL_OK(ncclAllReduce(a.data(), b.data(), a.size(), ncclFloat32, ncclSum, parent, stream.get()));
    }
    // The first to end its operations makes the other one's fail.
    ++team.word(0);
    ASSERT_TRUE(WaitUntil(20, [&] { return team.word(0) == 2; }));
    std::vector<ncclComm_t> children(2);
    NCCL_OK(Shrink(parent, {1}, &children[0], NCCL_SHRINK_ABORT));
    EXPECT_TRUE(stream.Synchronize(5));
    EXPECT_NE(ncclAllReduce(a.data(), b.data(), 1, ncclFloat32, ncclSum, parent, nullptr), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("a shrink has ended its operations"));
    ExpectMembers(children[0], team.rank(), {0, 2});
    NCCL_OK(Shrink(parent, {1}, &children[1], NCCL_SHRINK_ABORT));  // as often as one likes
    ExpectMembers(children[1], team.rank(), {0, 2});
    for (const ncclComm_t child : children) End(child);
    NCCL_OK(ncclCommAbort(parent));
    team.Barrier();
  });
}

TEST(Shrink, OfAShrunkOneWorks) {
  RunProcesses(6, [](Team& team) {
    ncclComm_t comm = team.MakeComm();
    std::vector<int> members = {0, 1, 2, 3, 4, 5};
    for (const int left_out : {5, 0, 2}) {  // by their numbers at first
      const auto place = std::find(members.begin(), members.end(), left_out);
      const int number = static_cast<int>(place - members.begin());
      members.erase(place);
      ncclComm_t child = nullptr;
      if (IsIn(team.rank(), members)) {
        NCCL_OK(Shrink(comm, {number}, &child));
      }
      NCCL_OK(ncclCommDestroy(comm));
      if (child == nullptr) return;
      comm = child;
      ExpectMembers(comm, team.rank(), members);
    }
    End(comm);
  });
}

// Two ranks are lost. Rank 3 had no neighbour in the control tree but rank 1: nobody hears of its end by itself.
// Of the loss of rank 3 only rank 1 would hear by itself, and a child of its lives on.
TEST(Shrink, NamesALostRankThatIsNotExcludedAndMayBeTriedAgain) {
  RunProcesses(5,
               [](Team& team) {
                 const ncclComm_t parent = team.MakeComm();
                 team.Barrier();
                 if (team.rank() == 3 && fork() == 0) {
                   sleep(static_cast<unsigned>(kNoticeSeconds) + 5);
                   _exit(0);
                 }
                 if (team.rank() == 1 || team.rank() == 3) raise(SIGKILL);
                 WorkUntilItFails(parent, "rank ");
                 const double begin = Seconds();
                 ncclComm_t child = parent;
                 EXPECT_EQ(Shrink(parent, {1}, &child, NCCL_SHRINK_ABORT), ncclRemoteError);
                 EXPECT_TRUE(LastErrorHas("rank 3 ("));
                 EXPECT_TRUE(LastErrorHas("exclude it, too"));
                 EXPECT_LT(Seconds() - begin, kNoticeSeconds);
                 EXPECT_EQ(child, nullptr);
                 ++team.word(0);
                 ASSERT_TRUE(WaitUntil(10, [&] { return team.word(0) == 3; }));
                 NCCL_OK(Shrink(parent, {3, 1}, &child, NCCL_SHRINK_ABORT));
                 ExpectMembers(child, team.rank(), {0, 2, 4});
                 End(child);
                 NCCL_OK(ncclCommAbort(parent));
               },
               {.may_die = 1u << 1 | 1u << 3});
}

TEST(Shrink, WorksForRanksOfOneThreadInAGroup) {
  RunProcesses(1, [](Team&) {
    const Environment twice("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    constexpr int kRanks = 5;
    std::vector<ncclComm_t> parents(kRanks);
    NCCL_OK(ncclCommInitAll(parents.data(), kRanks, nullptr));
    const std::vector<int> members = {0, 2, 3};
    std::vector<ncclComm_t> children(members.size());
    NCCL_OK(ncclGroupStart());
    for (size_t i = 0; i < members.size(); ++i) {
      NCCL_OK(Shrink(parents[static_cast<size_t>(members[i])], {4, 1}, &children[i]));
    }
    NCCL_OK(ncclGroupEnd());
    std::vector<int> sums(members.size());
    NCCL_OK(ncclGroupStart());
    for (size_t i = 0; i < members.size(); ++i) {
      NCCL_OK(ncclAllReduce(&members[i], &sums[i], 1, ncclInt32, ncclSum, children[i], nullptr));
    }
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(sums, std::vector<int>(members.size(), 5));
    for (const ncclComm_t comm : children) NCCL_OK(ncclCommDestroy(comm));
    for (const ncclComm_t comm : parents) NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Shrink, WorksForThreadsOfOneProcess) {
  RunThreads(6, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    if (!IsIn(team.rank(), {0, 5})) {
      ncclComm_t child = nullptr;
      NCCL_OK(Shrink(parent, {5, 0}, &child, NCCL_SHRINK_ABORT));
      ExpectMembers(child, team.rank(), {1, 2, 3, 4});
      End(child);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(parent));
  });
}

TEST(Shrink, GivesTheChildAConfigOfItsOwn) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    if (team.rank() == 1) return End(parent);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.shrinkShare = 1;
    config.commName = "shrunk";
    int excluded = 1;
    ncclComm_t child = nullptr;
    const ncclResult_t begun = ncclCommShrink(parent, &excluded, 1, &child, &config, NCCL_SHRINK_DEFAULT);
    EXPECT_TRUE(begun == ncclInProgress || begun == ncclSuccess) << ncclGetLastError(nullptr);
    ncclResult_t state = ncclInProgress;
    EXPECT_TRUE(
        WaitUntil(20, [&] { return ncclCommGetAsyncError(child, &state) != ncclSuccess || state != ncclInProgress; }));
    EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(child);
    ExpectMembers(child, team.rank(), {0, 2});
    ncclCommFinalize(child);
    EXPECT_TRUE(
        WaitUntil(20, [&] { return ncclCommGetAsyncError(child, &state) != ncclSuccess || state != ncclInProgress; }));
    NCCL_OK(ncclCommDestroy(child));
    End(parent);
  });
}

struct Disagreement {
  std::vector<std::vector<int>> lists;  // by rank; an empty one: that rank does not call
  std::vector<std::string> words;       // that the rank's error has; "": it must succeed
};

class Disagreeing : public testing::TestWithParam<Disagreement> {};

// The lists differ, everybody hears so in time; with one list it works at once.
TEST_P(Disagreeing, RanksAreToldAndMayTryAgain) {
  const Disagreement& test = GetParam();
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "3000");
  RunProcesses(static_cast<int>(test.lists.size()), [&](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    const auto me = static_cast<size_t>(team.rank());
    ncclComm_t child = nullptr;
    if (!test.lists[me].empty()) {
      EXPECT_NE(Shrink(parent, test.lists[me], &child), ncclSuccess);
      EXPECT_TRUE(LastErrorHas(test.words[me]));
    }
    team.Barrier();
    if (team.rank() != 1) {
      NCCL_OK(Shrink(parent, {1}, &child));
      std::vector<int> members;
      for (int rank = 0; rank < team.size(); ++rank) {
        if (rank != 1) members.push_back(rank);
      }
      ExpectMembers(child, team.rank(), members);
      End(child);
    }
    team.Barrier();  // who ends it waits a second for the others
    End(parent);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Each, Disagreeing,
    testing::Values(
        // One has another list; the rank where they meet is the same.
        Disagreement{{{3}, {3}, {1, 3}, {}}, {"without rank 3", "without rank 3", "without ranks 1, 3", ""}},
        // Who has another list looks for the others elsewhere, and tells those it finds.
        Disagreement{{{3}, {3}, {0}, {}}, {"without rank 0", "without rank 0", "without rank 3", ""}},
        // Two pairs that wait for one another.
        Disagreement{{{3}, {0}, {3}, {0}}, {"without rank 0", "without rank 3", "without rank 0", "without rank 3"}},
        // One does not call.
        Disagreement{{{3}, {3}, {}, {}}, {"rank 2 did not arrive", "rank 2 did not arrive", "", ""}}));

// One rank of four excludes another rank than its peers do, in every way there is: it may lead its peers or be led by
// them, look for them elsewhere, wait for them or have been left out by those who come to it. Everybody hears both
// lists.
TEST(Shrink, TellsAllRanksWhenOneHasAWrongList) {
  RunProcesses(4, [](Team& team) {
    for (int excluded = 0; excluded < 4; ++excluded) {
      for (int wrong = 0; wrong < 4; ++wrong) {
        for (int wrongly = 0; wrongly < 4; ++wrongly) {
          if (wrong == excluded || wrongly == wrong || wrongly == excluded) continue;
          const ncclComm_t parent = team.MakeComm();
          ASSERT_NE(parent, nullptr);
          if (team.rank() != excluded) {
            ncclComm_t child = nullptr;
            const double begin = Seconds();
            EXPECT_EQ(Shrink(parent, {team.rank() == wrong ? wrongly : excluded}, &child), ncclInvalidUsage);
            const std::string place = "rank " + std::to_string(team.rank()) + " of those without rank " +
                                      std::to_string(excluded) + ", of which rank " + std::to_string(wrong) +
                                      " is without rank " + std::to_string(wrongly);
            EXPECT_LT(Seconds() - begin, kNoticeSeconds) << place;
            EXPECT_TRUE(LastErrorHas("without rank " + std::to_string(excluded))) << place;
            EXPECT_TRUE(LastErrorHas("without rank " + std::to_string(wrongly))) << place;
          }
          team.Barrier();
          // Then they agree, with one that has not called before: on the list that was wrong, where they had not met by
          // it, or on a new one.
          const int agreed = excluded == 0 ? wrongly : 0 + 1 + 2 + 3 - excluded - wrong - wrongly;
          if (team.rank() != agreed) {
            ncclComm_t child = nullptr;
            NCCL_OK(Shrink(parent, {agreed}, &child));
            NCCL_OK(ncclCommDestroy(child));
          }
          team.Barrier();
          NCCL_OK(ncclCommAbort(parent));
        }
      }
    }
  });
}

// Rank 1 has no descriptor left to call rank 0 with, so rank 0 waits for it in vain. When rank 1 tries again with the
// same list it is not told of that, it waits for rank 0.
TEST(Shrink, WaitsForTheNextOneWhereItsOwnPartHadFailed) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "sanitizers need descriptors themselves";
#endif
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "3000");
  RunProcesses(3, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    ncclComm_t child = nullptr;
    if (team.rank() == 1) {
      const rlimit few{256, 256};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      std::vector<int> all;
      for (int fd = dup(0); fd >= 0; fd = dup(0)) all.push_back(fd);
      EXPECT_NE(Shrink(parent, {2}, &child), ncclSuccess);
      EXPECT_TRUE(LastErrorHas("ulimit -n"));
      for (const int fd : all) close(fd);
      team.word(1) = 1;
    } else if (team.rank() == 0) {
      ASSERT_TRUE(WaitUntil(10, [&] { return team.word(1) == 1; }));  // so that nobody calls rank 1 meanwhile
      EXPECT_NE(Shrink(parent, {2}, &child), ncclSuccess);
    }
    team.Barrier();
    if (team.rank() == 0) {
      ASSERT_TRUE(WaitUntil(10, [&] { return team.word(0) == 1; }));
      NCCL_OK(Shrink(parent, {2}, &child));
    } else if (team.rank() == 1) {
      std::thread notice([&] {
        usleep(100'000);  // in which an answer would come
        team.word(0) = 1;
      });
      NCCL_OK(Shrink(parent, {2}, &child));
      notice.join();
    }
    if (team.rank() != 2) {
      ExpectMembers(child, team.rank(), {0, 1});
      End(child);
    }
    team.Barrier();
    End(parent);
  });
}

// Rank 0, where all meet, has no descriptor left to take part itself. Rank 1 may have come before that, or comes after.
TEST(Shrink, IsCalledOffWhereAllMeetWhenThatRankFails) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "sanitizers need descriptors themselves";
#endif
  RunProcesses(3, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    ASSERT_NE(parent, nullptr);
    ncclComm_t child = nullptr;
    std::vector<int> all;
    if (team.rank() == 0) team.word(1) = static_cast<uint64_t>(getpid());
    team.Barrier();
    if (team.rank() == 0) {
      const rlimit few{256, 256};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      ASSERT_TRUE(WaitUntil(10, [&] { return team.word(0) == 1; }));
      usleep(20'000);  // most times rank 1 has come by then; both ways are right
      for (int fd = dup(0); fd >= 0; fd = dup(0)) all.push_back(fd);
    }
    if (team.rank() == 1) team.word(0) = 1;
    if (team.rank() != 2) {
      const double begin = Seconds();
      EXPECT_NE(Shrink(parent, {2}, &child), ncclSuccess);
      EXPECT_TRUE(LastErrorHas("process " + std::to_string(team.word(1))));
      EXPECT_TRUE(LastErrorHas("ulimit -n"));
      EXPECT_LT(Seconds() - begin, kNoticeSeconds);
    }
    for (const int fd : all) close(fd);
    team.Barrier();
    if (team.rank() != 2) {
      NCCL_OK(Shrink(parent, {2}, &child));
      ExpectMembers(child, team.rank(), {0, 1});
      End(child);
    }
    team.Barrier();
    End(parent);
  });
}

// Ranks call what they have a part in, in one order, and some are seconds ahead of others: no list is wrong.
TEST(Shrink, LetsRanksBeInDifferentShrinksOfOneOrder) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    // Rank 0 waits for rank 1, that waits for rank 2, that waits for rank 3, which is late.
    const std::vector<std::vector<int>> lists = {{0, 1}, {0, 3}, {2, 3}, {1}, {0}, {2}, {3}};
    for (const std::vector<int>& excluded : lists) {
      if (IsIn(team.rank(), excluded)) continue;
      if (team.rank() == 3 && excluded == lists[0]) usleep(2'500'000);
      std::vector<int> members;
      for (int rank = 0; rank < team.size(); ++rank) {
        if (!IsIn(rank, excluded)) members.push_back(rank);
      }
      ncclComm_t child = nullptr;
      NCCL_OK(Shrink(parent, excluded, &child));
      ExpectMembers(child, team.rank(), members);
      NCCL_OK(ncclCommDestroy(child));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(parent));
  });
}

// Two shrinks of one parent with some ranks in common: who is in the second only may be early.
TEST(Shrink, KeepsAnEarlyCallerForTheNextOne) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t parent = team.MakeComm();
    for (int turn = 0; turn < 20; ++turn) {
      for (const int excluded : {3, 2}) {
        if (team.rank() == excluded) continue;
        ncclComm_t child = nullptr;
        NCCL_OK(Shrink(parent, {excluded}, &child));
        std::vector<int> members = {0, 1, 2, 3};
        std::erase(members, excluded);
        int size = 0;
        NCCL_OK(ncclCommCount(child, &size));
        EXPECT_EQ(size, 3);
        NCCL_OK(ncclCommDestroy(child));
      }
    }
    End(parent);
  });
}

}  // namespace
}  // namespace sl::integration

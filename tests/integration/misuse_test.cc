// SPDX-License-Identifier: Apache-2.0
//
// Ranks that call different things, and communicators that end while they are in use: errors that name both sides, and
// nobody hangs.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// Far above what an abort takes, so that a busy machine passes, and far below the time limits of operations.
constexpr double kAbortSeconds = 5;
constexpr size_t kLarge = 2 << 20;

void ExpectQuickAbort(ncclComm_t comm) {
  const double start = Seconds();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_LT(Seconds() - start, kAbortSeconds);
}

bool IsFailure(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// Waits until the communicator says that something is wrong.
ncclResult_t AwaitFailure(ncclComm_t comm, double seconds) {
  ncclResult_t state = ncclSuccess;
  WaitUntil(seconds, [&] { return IsFailure(ncclCommGetAsyncError(comm, &state)) || IsFailure(state); });
  return state;
}

struct Mismatch {
  const char* name;
  ncclResult_t (*call)(int rank, float* a, float* b, size_t count, ncclComm_t comm);
  const char* words[2];  // what the two sides called
};

// Rank 1 calls something else than ranks 0 and 2.
const Mismatch kMismatches[] = {
    {"Count",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       return ncclAllReduce(a, b, rank == 1 ? count - 1 : count, ncclFloat32, ncclSum, comm, nullptr);
     },
     {"float32", "sum"}},
    {"Type",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       return ncclAllReduce(a, b, count, rank == 1 ? ncclInt32 : ncclFloat32, ncclSum, comm, nullptr);
     },
     {"int32", "float32"}},
    {"Reduction",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       return ncclAllReduce(a, b, count, ncclFloat32, rank == 1 ? ncclMax : ncclSum, comm, nullptr);
     },
     {"max", "sum"}},
    {"Root",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       return ncclBroadcast(a, b, count, ncclFloat32, rank == 1 ? 1 : 0, comm, nullptr);
     },
     {"root 1", "root 0"}},
    {"Operation",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       return rank == 1 ? ncclReduce(a, b, count, ncclFloat32, ncclSum, 0, comm, nullptr)
                        : ncclAllReduce(a, b, count, ncclFloat32, ncclSum, comm, nullptr);
     },
     {"reduce of", "all_reduce of"}},
    {"Settings",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
       config.maxCTAs = rank == 1 ? 4 : 8;
       return ncclAllReduceConfig(a, b, count, ncclFloat32, ncclSum, comm, nullptr, &config);
     },
     {"sum, with settings", "float32"}},
    {"SettingsOfOne",
     [](int rank, float* a, float* b, size_t count, ncclComm_t comm) {
       ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
       config.algSelection = "ring";
       return ncclAllReduceConfig(a, b, count, ncclFloat32, ncclSum, comm, nullptr, rank == 1 ? &config : nullptr);
     },
     {"sum, with settings", "float32"}},
};

// Words 0 and 1: how many ranks saw a failure, and how many of them saw what both sides called.
void MeetAMismatch(Team& team, const Mismatch& mismatch, size_t count) {
  const ncclComm_t comm = team.MakeComm();
  std::vector<float> a(count, 1), b(count);
  ncclResult_t result = mismatch.call(team.rank(), a.data(), b.data(), count, comm);
  // Who got through, having nothing to wait for, hears of it from the others, or when they meet at the end.
  if (result == ncclSuccess) result = AwaitFailure(comm, 0.5);
  if (result == ncclSuccess) result = ncclCommFinalize(comm);
  EXPECT_TRUE(result == ncclInvalidUsage || result == ncclRemoteError) << result;
  const std::string text = ncclGetLastError(nullptr);
  ++team.word(0);
  const bool both = text.find(mismatch.words[0]) != std::string::npos &&
                    text.find(mismatch.words[1]) != std::string::npos && text.find("rank 1") != std::string::npos;
  if (both) ++team.word(1);
  EXPECT_TRUE(both) << text;
  team.Barrier();
  ExpectQuickAbort(comm);
}

// No time limit helps here: that of operations is half an hour.
TEST(Mismatch, IsReportedToEveryRankWithBothSidesArguments) {
  for (const Mismatch& mismatch : kMismatches) {
    for (size_t count : {size_t{4}, kLarge}) {
      SCOPED_TRACE(std::string(mismatch.name) + " " + std::to_string(count));
      RunProcesses(3, [&](Team& team) { MeetAMismatch(team, mismatch, count); });
    }
  }
}

TEST(Mismatch, OfMessagesIsReportedToBothSides) {
  for (size_t count : {size_t{4}, kLarge}) {
    for (bool other_type : {false, true}) {
      SCOPED_TRACE(count);
      RunProcesses(2, [count, other_type](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        std::vector<float> data(count, 1);
        const ncclDataType_t type = other_type ? ncclInt32 : ncclFloat32;
        const size_t less = other_type ? count : count - 1;
        ncclResult_t result = team.rank() == 0 ? ncclSend(data.data(), count, ncclFloat32, 1, comm, nullptr)
                                               : ncclRecv(data.data(), less, type, 0, comm, nullptr);
        if (result == ncclSuccess) result = AwaitFailure(comm, 5);
        EXPECT_TRUE(result == ncclInvalidUsage || result == ncclRemoteError) << result;
        EXPECT_TRUE(LastErrorHas(std::to_string(count) + " float32"));
        EXPECT_TRUE(LastErrorHas(std::to_string(less) + (other_type ? " int32" : " float32")));
        team.Barrier();
        ExpectQuickAbort(comm);
      });
    }
  }
}

TEST(Mismatch, LeavesOtherCommunicatorsAlone) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t broken = team.MakeComm();
    const ncclComm_t sound = team.MakeComm();
    int value = 1;
    int sum = 0;
    EXPECT_TRUE(IsFailure(ncclAllReduce(&value, &sum, team.rank() == 0 ? 0 : 1, ncclInt32, ncclSum, broken, nullptr)) ||
                IsFailure(AwaitFailure(broken, 5)));
    NCCL_OK(ncclAllReduce(&value, &sum, 1, ncclInt32, ncclSum, sound, nullptr));
    EXPECT_EQ(sum, 3);
    team.Barrier();
    ExpectQuickAbort(broken);
    NCCL_OK(ncclAllReduce(&value, &sum, 1, ncclInt32, ncclSum, sound, nullptr));
    NCCL_OK(ncclCommDestroy(sound));
  });
}

TEST(Mismatch, OfProfilesIsRefusedWhenACommunicatorIsMade) {
  RunProcesses(3, [](Team& team) {
    if (team.rank() == 1) setenv("STARLING_LINK_SLOTS", "5", 1);
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitRank(&comm, 3, id, team.rank());
    EXPECT_TRUE(made == ncclInvalidUsage || made == ncclRemoteError) << made;
    EXPECT_TRUE(LastErrorHas("another effective profile"));
    EXPECT_TRUE(LastErrorHas("rank 1"));
    EXPECT_EQ(comm, nullptr);
  });
}

TEST(Config, OfProcessorsThatMakesNoSenseIsRefused) {
  RunProcesses(1, [](Team& team) {
    ncclUniqueId id = team.MakeId();
    sl_comm_config_t config{};
    config.struct_size = sizeof(config);
    config.ids = reinterpret_cast<const sl_unique_id_t*>(&id);
    config.id_count = 1;
    config.size = 1;
    config.device_kind = config.device_ordinal = -1;
    const auto refusal = [&] {
      sl_comm_t* comm = nullptr;
      EXPECT_EQ(Runtime()->comm_create(&config, &comm), SL_ERR_INVALID);
      EXPECT_EQ(comm, nullptr);
      return std::string(Runtime()->last_error());
    };
    config.processors_min = 9;
    config.processors_max = 8;
    EXPECT_NE(refusal().find("at least 9 processors and at most 8"), std::string::npos);
    config.processors_min = 8;
    config.processor_weight = 1001;
    EXPECT_NE(refusal().find("1001 thousandths; 0 to 1000"), std::string::npos);
    // A caller that does not know these fields has nothing there.
    config.struct_size = offsetof(sl_comm_config_t, processors_min);
    sl_comm_t* comm = nullptr;
    ASSERT_EQ(Runtime()->comm_create(&config, &comm), SL_OK) << Runtime()->last_error();
    sl_comm_config_t child = config;
    child.struct_size = sizeof(child);
    sl_comm_t* none = nullptr;
    EXPECT_EQ(Runtime()->comm_split(comm, 0, 0, &child, &none), SL_ERR_INVALID);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(Runtime()->comm_destroy(comm), SL_OK);
  });
}

// As on hosts of which one has GPUs: what is installed may differ, what the ranks use may not.
TEST(Mismatch, IsNotOfDevicesThatNoRankUses) {
  const std::string profile = ::testing::TempDir() + "spare-device-" + std::to_string(getpid()) + ".toml";
  std::ofstream(profile) << "profile_version = 1\n[modules.null-device]\n";
  RunProcesses(3, [&profile](Team& team) {
    if (team.rank() == 1) setenv("STARLING_PROFILE", profile.c_str(), 1);
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    int sum = 0;
    NCCL_OK(ncclAllReduce(&value, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
    EXPECT_EQ(sum, 3);
    NCCL_OK(ncclCommDestroy(comm));
  });
  unlink(profile.c_str());
}

TEST(Init, RefusesWhatIsNoId) {
  RunProcesses(1, [](Team& team) {
    ncclUniqueId id{};
    ncclComm_t comm = nullptr;
    EXPECT_TRUE(IsFailure(ncclCommInitRank(&comm, 1, id, 0)));
    EXPECT_NE(std::string(ncclGetLastError(nullptr)), "");
    // One that has served already.
    id = team.MakeId();
    NCCL_OK(ncclCommInitRank(&comm, 1, id, 0));
    ncclComm_t again = nullptr;
    EXPECT_TRUE(IsFailure(ncclCommInitRank(&again, 1, id, 0)));
    EXPECT_TRUE(LastErrorHas("used already"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Every descriptor limit from too few to enough ends in an error that says so, or in success; none in a crash.
TEST(Init, SurvivesAnyDescriptorLimit) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "sanitizers need descriptors of their own";
#endif
  const Environment timeout("STARLING_COMM_BOOTSTRAP_TIMEOUT_MS", "10000");
  for (rlim_t limit = 4; limit < 48; ++limit) {
    RunProcesses(1, [limit](Team&) {
      const rlimit few{limit, limit};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      ncclComm_t comms[2] = {};
      const ncclResult_t made = ncclCommInitAll(comms, 2, nullptr);
      if (made != ncclSuccess) {
        const std::string text = ncclGetLastError(nullptr);
        EXPECT_NE(text.find("ulimit -n"), std::string::npos) << limit << ": " << text;
        return;
      }
      for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
    });
  }
}

// Its part in what all agree on is done; it cannot connect to the rank that waits for it, which hears of its abort only
// in the communicator that is split. The third has connected.
TEST(Split, EndsOnAllWhenARankThatHasAgreedCannotGoOn) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "sanitizers need descriptors of their own";
#endif
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 1) {
      const rlimit few{64, 64};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      while (dup(0) >= 0) {
      }
    }
    team.Barrier();
    ncclComm_t child = nullptr;
    EXPECT_NE(ncclCommSplit(comm, 0, team.rank(), &child, nullptr), ncclSuccess);
    EXPECT_EQ(child, nullptr);
    const std::string text = ncclGetLastError(nullptr);
    const char* expected = team.rank() == 1 ? "ulimit -n" : "rank 1";
    EXPECT_NE(text.find(expected), std::string::npos) << text;
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// One of the two waits for rank 1; the other is told what is wrong and leaves the first alone.
TEST(Misuse, OfOneCommunicatorByTwoThreadsAtOnceIsRefused) {
  const auto rank = [](Team& team, int count) {
    const ncclComm_t comm = team.MakeComm();
    const auto reduce = [comm, count] {
      int values[2] = {1, 1};
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      for (int i = 0; i < count; ++i) {
        EXPECT_EQ(ncclAllReduce(&values[i], &values[i], 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
      }
      const ncclResult_t result = ncclGroupEnd();
      EXPECT_TRUE(result != ncclSuccess || values[count - 1] == 2);
      return result;
    };
    const auto race = [&] {
      const ncclResult_t result = reduce();
      if (result == ncclSuccess) return;
      EXPECT_EQ(result, ncclInvalidUsage);
      EXPECT_TRUE(LastErrorHas("two threads call on one communicator at once"));
      ++team.word(0);
    };
    if (team.rank() == 0) {
      std::thread other(race);
      race();
      other.join();
    } else {
      EXPECT_TRUE(WaitUntil(10, [&team] { return team.word(0) == 1; }));
      EXPECT_EQ(reduce(), ncclSuccess);
    }
    EXPECT_EQ(team.word(0), 1u);
    NCCL_OK(ncclCommDestroy(comm));
  };
  for (int count : {1, 2}) {
    RunProcesses(2, [&](Team& team) { rank(team, count); }, {.seconds = 30});
  }
}

TEST(Misuse, OfMemoryOfOthersNamesItWhenItIsFreed) {
  RunProcesses(1, [](Team&) {
    int value = 0;
    EXPECT_EQ(ncclMemFree(&value), ncclInvalidArgument);
    char address[32];
    std::snprintf(address, sizeof(address), "%p", static_cast<void*>(&value));
    EXPECT_TRUE(LastErrorHas(address));
    EXPECT_TRUE(LastErrorHas("ncclMemAlloc"));
  });
}

// Far below the two minutes that ranks wait for each other.
constexpr double kGroupSeconds = 20;

TEST(Init, OfAGroupEndsWithTheFirstOfItsRanksThatFails) {
  RunProcesses(1, [](Team& team) {
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comms[2] = {};
    const double start = Seconds();
    NCCL_OK(ncclGroupStart());
    for (ncclComm_t& comm : comms) NCCL_OK(ncclCommInitRank(&comm, 2, id, 0));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT_LT(Seconds() - start, kGroupSeconds);
    const std::string text = ncclGetLastError(nullptr);
    EXPECT_NE(text.find("two processes or threads joined as rank 0"), std::string::npos) << text;
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
  });
}

TEST(Init, RaisesTheSoftLimitWhenItsDescriptorsAreUsedUpBefore) {
  RunProcesses(1, [](Team&) {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 64;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (dup(STDERR_FILENO) >= 0) continue;
    ncclComm_t comm = nullptr;
    NCCL_OK(ncclCommInitAll(&comm, 1, nullptr));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Ended, CommunicatorsRefuseEveryUse) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t aborted = team.MakeComm();
    const ncclComm_t finalized = team.MakeComm();
    team.Barrier();
    NCCL_OK(ncclCommAbort(aborted));
    int value = 1;
    int count = 0;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, aborted, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("destroyed or aborted"));
    EXPECT_EQ(ncclCommCount(aborted, &count), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDestroy(aborted), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(aborted), ncclInvalidArgument);
    NCCL_OK(ncclCommFinalize(finalized));
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, finalized, nullptr), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("finalized"));
    EXPECT_NE(ncclCommFinalize(finalized), ncclSuccess);
    NCCL_OK(ncclCommDestroy(finalized));
    EXPECT_EQ(ncclCommDestroy(finalized), ncclInvalidArgument);
  });
}

TEST(Destroy, CompletesWorkOutstandingOnAStream) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    HostStream stream;
    std::vector<float> a(200000, 1), b(200000);
    if (team.rank() == 1) usleep(100'000);
    for (int i = 0; i < 8; ++i) {
      NCCL_OK(ncclAllReduce(a.data(), b.data(), a.size(), ncclFloat32, ncclSum, comm, stream.get()));
    }
    NCCL_OK(ncclCommDestroy(comm));
    EXPECT_EQ(b.front(), 2);
    EXPECT_EQ(b.back(), 2);
    EXPECT_TRUE(stream.Synchronize(5)) << "the sums are there, its thread is about to say so";
  });
}

TEST(Destroy, OfARankInUseTellsThoseWhoWaitForIt) {
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    if (team.rank() == 2) {
      NCCL_OK(ncclCommAbort(comm));
      return;
    }
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclRemoteError);
    EXPECT_TRUE(LastErrorHas("rank 2"));
    ExpectQuickAbort(comm);
  });
}

TEST(Abort, FromAnotherThreadEndsAWait) {
  for (bool on_stream : {false, true}) {
    for (size_t count : {size_t{1}, kLarge}) {
      RunProcesses(2, [on_stream, count](Team& team) {
        const ncclComm_t comm = team.MakeComm();
        if (team.rank() == 0) {
          HostStream stream;
          std::vector<float> a(count, 1), b(count);
          // Of a call that blocks, the abort may come first; one for a stream must have been taken.
          std::atomic<bool> issued{!on_stream};
          std::thread aborter([&] {
            issued.wait(false);
            usleep(50'000);
            ExpectQuickAbort(comm);
          });
          const double start = Seconds();
          const ncclResult_t result =
              ncclAllReduce(a.data(), b.data(), count, ncclFloat32, ncclSum, comm, on_stream ? stream.get() : nullptr);
          issued = true;
          issued.notify_all();
          EXPECT_EQ(result == ncclSuccess, on_stream);
          EXPECT_TRUE(stream.Synchronize());
          EXPECT_LT(Seconds() - start, 0.05 + kAbortSeconds);
          aborter.join();
        }
        team.Barrier();
        if (team.rank() == 1) ExpectQuickAbort(comm);
      });
    }
  }
}

TEST(Abort, OfOneCommunicatorLeavesTheOthers) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t first = team.MakeComm();
    const ncclComm_t second = team.MakeComm();
    float value = 1;
    NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, first, nullptr));
    team.Barrier();
    ExpectQuickAbort(first);
    for (int i = 0; i < 100; ++i) {
      value = 1;
      NCCL_OK(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, second, nullptr));
      ASSERT_EQ(value, 2);
    }
    NCCL_OK(ncclCommDestroy(second));
  });
}

TEST(Abort, EndsACommunicatorThatIsStillConnecting) {
  RunProcesses(1, [](Team& team) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    for (int i = 0; i < 10; ++i) {
      ncclComm_t comm = nullptr;
      const ncclUniqueId id = team.MakeId();
      const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, 0, &config);
      ASSERT_TRUE(made == ncclSuccess || made == ncclInProgress) << ncclGetLastError(nullptr);
      usleep(static_cast<useconds_t>(i) * 500);
      ExpectQuickAbort(comm);
    }
  });
}

// Handles of CUDA's: its default streams are small numbers, others are pointers to what nobody here knows.
TEST(Stream, OfAnotherDeviceIsRefusedWithTheRemedy) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    const HostStream own;
    float value = 1;
    const auto add = [&](cudaStream_t stream) {
      return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream);
    };
    std::vector<uint64_t> foreign(64, 1);
    for (const uintptr_t handle : {uintptr_t{1}, uintptr_t{2}, reinterpret_cast<uintptr_t>(foreign.data())}) {
      const auto stream = reinterpret_cast<cudaStream_t>(handle);
      EXPECT_EQ(add(stream), ncclInvalidArgument);
      EXPECT_TRUE(LastErrorHas("this communicator lies in host memory"));
      EXPECT_TRUE(LastErrorHas("cudaSetDevice"));
      EXPECT_TRUE(LastErrorHas("roles.device"));
      NCCL_OK(ncclGroupStart());
      NCCL_OK(add(own.get()));
      NCCL_OK(add(stream));
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      EXPECT_TRUE(LastErrorHas("this communicator lies in host memory"));
    }
    EXPECT_EQ(value, 1);
    NCCL_OK(add(nullptr));
    EXPECT_EQ(value, 2);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

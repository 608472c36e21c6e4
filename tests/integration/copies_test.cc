// SPDX-License-Identifier: Apache-2.0
//
// Collectives that are lists of copies between symmetric windows, over the fake CUDA driver.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/copy_case.h"
#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

using Kind = CopyCase::Kind;
constexpr size_t kShort = 300;
constexpr size_t kLong = 1'400'000;  // of ints: a broadcast to more than one goes in two phases

// A window of a rank's memory, halved: what it sends, what it receives.
class Window {
 public:
  Window(ncclComm_t comm, int rank, int size, size_t block = kLong)
      : comm_(comm), rank_(rank), size_(size), half_(block * static_cast<size_t>(size)) {
    void* memory = nullptr;
    EXPECT_EQ(ncclMemAlloc(&memory, bytes()), ncclSuccess) << ncclGetLastError(nullptr);
    values_ = static_cast<int*>(memory);
    EXPECT_EQ(ncclCommWindowRegister(comm, memory, bytes(), &window_, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess)
        << ncclGetLastError(nullptr);
  }
  ~Window() { EXPECT_EQ(ncclMemFree(values_), ncclSuccess); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  // The communicator ends after it, or by an abort.
  void Deregister() const { EXPECT_EQ(ncclCommWindowDeregister(comm_, window_), ncclSuccess); }

  int* send() const { return values_; }
  int* recv() const { return values_ + half_; }
  size_t bytes() const { return 2 * half_ * sizeof(int); }
  ncclComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  const ncclComm_t comm_;
  const int rank_;
  const int size_;
  const size_t half_;
  int* values_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

// What a rank sends, fresh for each salt; what it receives is spoilt.
void Fill(const CopyCase& test, const Window& window, int salt) {
  std::fill_n(window.recv(), test.count * static_cast<size_t>(window.size()), -1);
  const std::vector<int> sent = test.Sent(window.rank(), window.size(), salt);
  std::copy(sent.begin(), sent.end(), test.SendIn(window.send(), window.recv(), window.rank()));
}

ncclResult_t Issue(const CopyCase& test, const Window& window, cudaStream_t stream = nullptr) {
  return test.Issue(test.SendIn(window.send(), window.recv(), window.rank()), window.recv(), window.rank(),
                    window.comm(), stream);
}

testing::AssertionResult IsRight(const CopyCase& test, const Window& window, int salt) {
  const std::vector<int> wanted = test.Wanted(window.rank(), window.size(), salt);
  const auto [is, should] = std::mismatch(window.recv(), window.recv() + wanted.size(), wanted.begin());
  if (should == wanted.end()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << test.ToString() << ": rank " << window.rank() << " has " << *is << " at "
                                     << is - window.recv() << ", not " << *should;
}

class Copies : public Unwatched {
 protected:
  // Fills, lets `run` issue, and checks, on all ranks together.
  static void Round(Team& team, const FakeGpu& gpu, const Window& window, const CopyCase& call, int salt,
                    const std::function<void()>& run) {
    Fill(call, window, salt);
    team.Barrier();
    run();
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_TRUE(IsRight(call, window, salt));
    team.Barrier();
  }
};

class CopiesOfMany : public Copies, public testing::WithParamInterface<int> {};

// Captured operations and eager ones in between, with other values each time.
TEST_P(CopiesOfMany, AreRightEagerAndInReplays) {
  RunProcesses(GetParam(), [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size());
      int salt = 0;
      for (const CopyCase& call : ManyCopyCases(team.size(), kLong)) {
        const auto issue = [&] { NCCL_OK(Issue(call, window)); };
        Round(team, gpu, window, call, ++salt, issue);
        Round(team, gpu, window, call, ++salt, issue);
        gpu.BeginCapture();
        issue();
        void* graph = gpu.EndCapture();
        for (int replay = 0; replay < 3; ++replay) {
          Round(team, gpu, window, call, ++salt, [&] { gpu.Launch(graph); });
          Round(team, gpu, window, call, ++salt, issue);
        }
        // One after the other, without a rank waiting for its stream.
        Round(team, gpu, window, call, ++salt, [&] {
          for (int i = 0; i < 5; ++i) {
            gpu.Launch(graph);
            issue();
          }
        });
        gpu.DestroyGraph(graph);
        if (testing::Test::HasFailure()) break;
      }
      EXPECT_EQ(gpu.Calls("cuLaunchKernelEx"), 0u) << "no kernel runs";
      window.Deregister();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, CopiesOfMany, testing::Values(2, 3, 4, 5));

// Whatever the number of ranks: words one by one cost a stream some 2 us each.
TEST_P(CopiesOfMany, MeetByOneCallOfTheDriverAtEachGate) {
  RunProcesses(GetParam(), [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size());
      const CopyCase gather{Kind::kAllGather, kShort, 0};
      const uint64_t batches = gpu.Calls("cuStreamBatchMemOp");
      Round(team, gpu, window, gather, 1, [&] { NCCL_OK(Issue(gather, window)); });
      EXPECT_EQ(gpu.Calls("cuStreamBatchMemOp") - batches, 2u);
      EXPECT_EQ(gpu.Calls("cuStreamWriteValue64"), 0u);
      EXPECT_EQ(gpu.Calls("cuStreamWaitValue64"), 0u);
      window.Deregister();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(Copies, OperationsOfAGroupAndOfSeveralStreamsKeepTheirOrder) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size());
      const CopyCase gather{Kind::kAllGather, kShort, 0};
      // Hands on what the first one brings.
      const auto both = [&](cudaStream_t first, cudaStream_t second) {
        NCCL_OK(Issue(gather, window, first));
        NCCL_OK(ncclAllGather(window.recv() + 2 * kShort, window.recv(), kShort, ncclInt32, comm, second));
      };
      const auto check = [&](int salt, const std::function<void()>& run) {
        Fill(gather, window, salt);
        team.Barrier();
        run();
        ASSERT_TRUE(gpu.Synchronize(30));
        const std::vector<int> third = gather.Sent(2, 3, salt);
        for (size_t at = 0; at < 2 * kShort; ++at) ASSERT_EQ(window.recv()[at], third[at % kShort]) << at;
        team.Barrier();
      };
      check(1, [&] { both(nullptr, nullptr); });
      check(2, [&] { both(gpu.MakeStream(), nullptr); });
      check(3, [&] {
        NCCL_OK(ncclGroupStart());
        both(nullptr, nullptr);
        NCCL_OK(ncclGroupEnd());
      });
      window.Deregister();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Of one communicator, in the order of their calls.
TEST_F(Copies, ServeOperationsThatOtherAlgorithmsServeBeside) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size());
      const CopyCase gather{Kind::kAllGather, kShort, 0};
      Fill(gather, window, 1);
      int sum[] = {1 + team.rank()};
      team.Barrier();
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclAllReduce(sum, sum, 1, ncclInt32, ncclSum, comm, nullptr));
      NCCL_OK(Issue(gather, window));
      NCCL_OK(ncclAllReduce(sum, sum, 1, ncclInt32, ncclSum, comm, nullptr));
      NCCL_OK(ncclGroupEnd());
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(sum[0], 6);
      EXPECT_TRUE(IsRight(gather, window, 1));
      EXPECT_EQ(gpu.Calls("cuLaunchKernelEx"), 2u);
      team.Barrier();
      window.Deregister();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Each has several operations in the group, which waits for none of them.
TEST_F(Copies, OneThreadHasSeveralRanks) {
  RunProcesses(1, [](Team&) {
    constexpr int kRanks = 2;
    const FakeGpu gpu;
    ncclComm_t comms[kRanks] = {};
    NCCL_OK(ncclCommInitAll(comms, kRanks, nullptr));
    std::vector<std::unique_ptr<Window>> windows;
    NCCL_OK(ncclGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      windows.push_back(std::make_unique<Window>(comms[rank], rank, kRanks, kShort));
    }
    NCCL_OK(ncclGroupEnd());
    const CopyCase cases[] = {{Kind::kAllGather, kShort}, {Kind::kAllToAll, kShort}, {Kind::kBroadcast, kShort, 1}};
    for (const auto& window : windows) Fill(cases[2], *window, 7);
    NCCL_OK(ncclGroupStart());
    for (const auto& window : windows) {
      for (const CopyCase& test : cases) NCCL_OK(Issue(test, *window));
    }
    NCCL_OK(ncclGroupEnd());
    const auto are_right = [&] {
      gpu.IsIdle();  // the driver works while it is asked
      return IsRight(cases[2], *windows[0], 7) && IsRight(cases[2], *windows[1], 7);
    };
    EXPECT_TRUE(WaitUntil(10, are_right));
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(Copies, NeedAllOfABufferInAWindow) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size(), kShort);
      const auto refuses = [&](ncclResult_t result) {
        EXPECT_EQ(result, ncclInvalidUsage);
        EXPECT_TRUE(LastErrorHas("copy: cannot: its "));
        EXPECT_TRUE(LastErrorHas(" buffers are not all in a symmetric window"));
      };
      refuses(ncclAllGather(window.send(), window.recv() + 1, kShort, ncclInt32, comm, nullptr));
      // In place, blocks lie at other places on every rank.
      refuses(ncclAlltoAll(window.send(), window.send(), kShort, ncclInt32, comm, nullptr));
      const size_t own = static_cast<size_t>(team.rank()) * kShort;
      refuses(ncclGather(window.recv() + own, window.recv(), kShort, ncclInt32, 0, comm, nullptr));
      refuses(ncclScatter(window.send(), window.send() + own, kShort, ncclInt32, 0, comm, nullptr));
      const CopyCase gather{Kind::kAllGather, kShort};
      Round(team, gpu, window, gather, 1, [&] { NCCL_OK(Issue(gather, window)); });
      window.Deregister();
      refuses(Issue(gather, window));
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(Copies, GoOnAfterASuspension) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size(), kShort);
      const CopyCase gather{Kind::kAllGather, kShort};
      for (int round = 0; round < 2; ++round) {
        Round(team, gpu, window, gather, round, [&] { NCCL_OK(Issue(gather, window)); });
        NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
        NCCL_OK(ncclCommResume(comm));
      }
      window.Deregister();
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// "rank 1 (process 4711)"; the team's word `rank` says which process.
std::string Named(Team& team, int rank) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(team.word(rank).load()) + ")";
}

void ExpectEnded(const FakeGpu& gpu, ncclComm_t comm) {
  EXPECT_TRUE(gpu.Synchronize(30));
  EXPECT_TRUE(WaitUntil(10, [&] { return AsyncError(comm) == ncclRemoteError; }));
}

TEST_F(Copies, AbortEndsWhatWaitsForOthers) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    {
      const Window window(comm, team.rank(), team.size());
      const CopyCase parted{Kind::kBroadcast, kLong, 1};
      gpu.BeginCapture();
      NCCL_OK(Issue(parted, window));
      void* graph = gpu.EndCapture();
      if (team.rank() == 0) {
        for (int i = 0; i < 20; ++i) NCCL_OK(Issue(parted, window));
        gpu.Launch(graph);
        EXPECT_FALSE(gpu.Synchronize(0.05));
      }
      team.Barrier();
      NCCL_OK(ncclCommAbort(comm));
      EXPECT_TRUE(gpu.Synchronize(5));
      gpu.DestroyGraph(graph);
      team.Barrier();
    }
  });
}

TEST_F(Copies, WaitThatLastsTooLongEndsAndNamesWhoHasNotCalled) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "2000");
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
    const Window window(comm, team.rank(), team.size(), kShort);
    const CopyCase gather{Kind::kAllGather, kShort};
    Round(team, gpu, window, gather, 1, [&] { NCCL_OK(Issue(gather, window)); });
    if (team.rank() != 1) {
      NCCL_OK(Issue(gather, window));
      ExpectEnded(gpu, comm);
    }
    if (team.rank() == 0) {
      const bool first = LastErrorHas("a collective by copies waits for " + Named(team, 1) + ", to begin it; " +
                                      Named(team, 1) + " has not called #2 (");
      EXPECT_TRUE(first) << ncclGetLastError(comm);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(Copies, ReplayThatLastsTooLongEnds) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "2000");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
    const Window window(comm, team.rank(), team.size(), kShort);
    const CopyCase gather{Kind::kAllGather, kShort};
    gpu.BeginCapture();
    NCCL_OK(Issue(gather, window));
    void* graph = gpu.EndCapture();
    Round(team, gpu, window, gather, 1, [&] { gpu.Launch(graph); });
    if (team.rank() == 0) {
      gpu.Launch(graph);
      ExpectEnded(gpu, comm);
      EXPECT_TRUE(LastErrorHas("timeout after 2000 ms: a captured collective by copies waits for " + Named(team, 1) +
                               ", to begin it"));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    gpu.DestroyGraph(graph);
  });
}

TEST_F(Copies, LostRankEndsTheWaitWithItsName) {
  RunProcesses(3,
               [](Team& team) {
                 const FakeGpu gpu;
                 const ncclComm_t comm = team.MakeComm();
                 team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
                 const Window window(comm, team.rank(), team.size(), kShort);
                 const CopyCase gather{Kind::kAllGather, kShort};
                 if (team.rank() != 2) {
                   NCCL_OK(Issue(gather, window));
                 }
                 team.Barrier();
                 if (team.rank() == 2) kill(getpid(), SIGKILL);
                 ExpectEnded(gpu, comm);
                 EXPECT_TRUE(LastErrorHas(Named(team, 2) + " was lost: its process ended"));
                 NCCL_OK(ncclCommAbort(comm));
               },
               {.may_die = 1U << 2});
}

// A rank whose buffer lies elsewhere chooses another way than the others.
TEST_F(Copies, BufferOutsideOfTheWindowOnOneRankIsTold) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "400");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const Window window(comm, team.rank(), team.size(), kShort);
    team.Barrier();
    if (team.rank() == 0) {
      const CopyCase gather{Kind::kAllGather, kShort};
      NCCL_OK(Issue(gather, window));
      ExpectEnded(gpu, comm);
    } else {
      std::vector<int> elsewhere(2 * kShort);
      EXPECT_EQ(ncclAllGather(window.send(), elsewhere.data(), kShort, ncclInt32, comm, nullptr), ncclInvalidUsage);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

}  // namespace
}  // namespace sl::integration

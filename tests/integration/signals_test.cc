// SPDX-License-Identifier: Apache-2.0
//
// Puts, signals and waits for them, over the fake CUDA driver.
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

using Signals = Unwatched;

// One rank's part: memory of its fake GPU and a window on it.
struct Windowed {
  Windowed(const FakeGpu& gpu, const Team& team, ncclComm_t comm) : size(team.size()) {
    memory = gpu.Reserve(1);
    gpu.Map(memory, cu::kHandlePosixFd);
    EXPECT_EQ(ncclCommWindowRegister(comm, values(), FakeGpu::kPiece, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess)
        << ncclGetLastError(nullptr);
  }
  int* values() const { return reinterpret_cast<int*>(memory); }
  int size;
  cu::Address memory = 0;
  ncclWindow_t window = nullptr;
};

// Everybody puts a value into everybody's window, the own one included, and waits for all.
ncclResult_t PutToAll(const Windowed& mine, ncclComm_t comm, int rank, const int* value) {
  std::vector<ncclWaitSignalDesc_t> wanted;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int peer = 0; peer < mine.size; ++peer) {
    const size_t offset = static_cast<size_t>(rank) * sizeof(int);
    EXPECT_EQ(ncclPutSignal(value, 1, ncclInt32, peer, mine.window, offset, 0, 0, 0, comm, nullptr), ncclSuccess)
        << ncclGetLastError(nullptr);
    wanted.push_back({1, peer, 0, 0});
  }
  EXPECT_EQ(ncclWaitSignal(mine.size, wanted.data(), comm, nullptr), ncclSuccess);
  return ncclGroupEnd();
}

TEST_F(Signals, PutsArriveBeforeTheirSignals) {
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const Windowed mine(gpu, team, comm);
    for (int round = 0; round < 20; ++round) {
      const int value = 100 * round + team.rank();
      NCCL_OK(PutToAll(mine, comm, team.rank(), &value));
      ASSERT_TRUE(gpu.Synchronize(30)) << round;
      for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(mine.values()[peer], 100 * round + peer);
      team.Barrier();
    }
    NCCL_OK(ncclCommWindowDeregister(comm, mine.window));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Each is taken once, however they come.
TEST_F(Signals, SignalsAreCounted) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const int peer = 1 - team.rank();
    for (int i = 0; i < 3; ++i) NCCL_OK(ncclSignal(peer, 0, 0, 0, comm, nullptr));
    ncclWaitSignalDesc_t two = {2, peer, 0, 0};
    NCCL_OK(ncclWaitSignal(1, &two, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(30));
    team.Barrier();
    NCCL_OK(ncclWaitSignal(1, &two, comm, nullptr));
    EXPECT_FALSE(gpu.Synchronize(0.05)) << "one is left, and not two";
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    EXPECT_TRUE(gpu.Synchronize(30)) << "an abort ends it";
  });
}

// The device refuses the first call, so that only the second one may take the signal.
TEST_F(Signals, WaitThatCouldNotBeIssuedTakesNoSignal) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const int peer = 1 - team.rank();
    NCCL_OK(ncclSignal(peer, 0, 0, 0, comm, nullptr));
    ASSERT_TRUE(gpu.Synchronize(30));
    team.Barrier();
    ncclWaitSignalDesc_t one = {1, peer, 0, 0};
    gpu.FailNext("cuStreamBatchMemOp");
    EXPECT_NE(ncclWaitSignal(1, &one, comm, nullptr), ncclSuccess);
    NCCL_OK(ncclWaitSignal(1, &one, comm, nullptr));
    EXPECT_TRUE(gpu.Synchronize(10)) << "there is one signal, and one wait for one signal";
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(Signals, PutsOutOfReachAreRefusedInWords) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    int values[16] = {};
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, values, sizeof(values), &window, 0));  // not of a GPU
    EXPECT_EQ(ncclPutSignal(values, 4, ncclInt32, 1 - team.rank(), window, 0, 0, 0, 0, comm, nullptr),
              ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("is out of reach"));
    EXPECT_TRUE(LastErrorHas("send and receive in a group"));
    EXPECT_EQ(ncclPutSignal(values, 4, ncclInt32, 1 - team.rank(), window, 56, 0, 0, 0, comm, nullptr),
              ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("16 bytes at offset 56 reach out of a window of 64"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// What ranks log while it stands.
class LogFile {
 public:
  ~LogFile() { unlink(path_.c_str()); }
  testing::AssertionResult Has(const std::string& part) const {
    std::ifstream in(path_);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << text << "does not say \"" << part << "\"";
  }

 private:
  const std::string path_ = testing::TempDir() + "signals-" + std::to_string(getpid()) + ".log";
  const std::string choice_ = "warn:" + path_;
  const Environment variable_{"STARLING_LOG", choice_.c_str()};
};

// "rank 1 (process 4711)"; the team's word `rank` says which process.
std::string Named(Team& team, int rank) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(team.word(rank).load()) + ")";
}

// The stream of this rank ends without being asked, and the communicator has failed.
void ExpectEnded(const FakeGpu& gpu, ncclComm_t comm) {
  EXPECT_TRUE(gpu.Synchronize(30));
  EXPECT_TRUE(WaitUntil(10, [&] { return AsyncError(comm) == ncclRemoteError; }));
}

TEST_F(Signals, WaitThatLastsTooLongIsReportedAndEndsWithAllItWaitsFor) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "2000");
  const LogFile log;
  const Environment reported("STARLING_COMM_REPORT_WAIT_MS", "100");
  RunProcesses(3, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
    if (team.rank() == 1) {
      NCCL_OK(ncclSignal(0, 0, 0, 0, comm, nullptr));
      EXPECT_TRUE(gpu.Synchronize(30));
    }
    team.Barrier();
    if (team.rank() == 0) {
      ncclWaitSignalDesc_t wanted[] = {{1, 2, 0, 0}, {2, 1, 0, 0}};
      NCCL_OK(ncclWaitSignal(2, wanted, comm, nullptr));
      ExpectEnded(gpu, comm);
      EXPECT_TRUE(LastErrorHas("timeout after 2000 ms: wait_signals waits for " + Named(team, 1) +
                               ", signals seen 1, wanted 2, " + Named(team, 2) + ", signals seen 0, wanted 1"));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
  EXPECT_TRUE(log.Has(" s: wait_signals waits for rank 1 (process "));
}

// What a stream does before it comes to its wait does not count.
TEST_F(Signals, WaitThatHasNotBegunHasNoLimit) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      const FakeGpu::Gate gate(gpu);
      ncclWaitSignalDesc_t one = {1, 1, 0, 0};
      NCCL_OK(ncclWaitSignal(1, &one, comm, nullptr));
      EXPECT_FALSE(WaitUntil(1.5, [&] { return gpu.IsIdle() || AsyncError(comm) != ncclSuccess; }));
      gate.Open();
      team.Barrier();
      EXPECT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(AsyncError(comm), ncclSuccess);
    } else {
      team.Barrier();
      NCCL_OK(ncclSignal(0, 0, 0, 0, comm, nullptr));
    }
    team.Barrier();
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(Signals, CapturedWaitForMoreThanAGraphHoldsIsRefused) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    gpu.BeginCapture();
    constexpr int kMost = 65536;
    const int peer = 1 - team.rank();
    ncclWaitSignalDesc_t most = {std::numeric_limits<int>::max(), peer, 0, 0};
    EXPECT_EQ(ncclWaitSignal(1, &most, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("2147483647 signals in a call that is captured, at most 65536 can be"));
    ncclWaitSignalDesc_t both[] = {{kMost, peer, 0, 0}, {1, peer, 0, 0}};
    EXPECT_EQ(ncclWaitSignal(2, both, comm, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("65537 signals in a call that is captured, at most 65536 can be"));
    NCCL_OK(ncclWaitSignal(1, both, comm, nullptr));
    gpu.DestroyGraph(gpu.EndCapture());
    team.Barrier();
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(Signals, CapturedWaitThatLastsTooLongEnds) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "400");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
    gpu.BeginCapture();
    ncclWaitSignalDesc_t two = {2, 1, 0, 0};
    if (team.rank() == 0) {
      NCCL_OK(ncclWaitSignal(1, &two, comm, nullptr));
    } else {
      NCCL_OK(ncclSignal(0, 0, 0, 0, comm, nullptr));
    }
    void* graph = gpu.EndCapture();
    if (team.rank() == 1) {
      gpu.Launch(graph);
      EXPECT_TRUE(gpu.Synchronize(30));
    }
    team.Barrier();
    if (team.rank() == 0) {
      gpu.Launch(graph);
      ExpectEnded(gpu, comm);
      EXPECT_TRUE(LastErrorHas("timeout after 400 ms: a captured wait_signals waits for " + Named(team, 1) +
                               ", signals still to come 1"));
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    gpu.DestroyGraph(graph);
  });
}

TEST_F(Signals, CapturedPutWhoseForerunnerIsNotTakenEnds) {
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "400");
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
    team.Barrier();
    if (team.rank() == 0) {
      gpu.BeginCapture();
      NCCL_OK(ncclSignal(1, 0, 0, 0, comm, nullptr));
      void* graph = gpu.EndCapture();
      gpu.Launch(graph);
      EXPECT_TRUE(gpu.Synchronize(30)) << "the first finds room";
      gpu.Launch(graph);
      ExpectEnded(gpu, comm);
      EXPECT_TRUE(
          LastErrorHas("timeout after 400 ms: a captured put_signal waits until the signal before it is taken "
                       "by " +
                       Named(team, 1)));
      gpu.DestroyGraph(graph);
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
  });
}

TEST_F(Signals, LostRankEndsTheWaitWithItsName) {
  RunProcesses(3,
               [](Team& team) {
                 const FakeGpu gpu;
                 const ncclComm_t comm = team.MakeComm();
                 team.word(team.rank()).store(static_cast<uint64_t>(getpid()));
                 ncclWaitSignalDesc_t one = {1, 2, 0, 0};
                 if (team.rank() != 2) {
                   NCCL_OK(ncclWaitSignal(1, &one, comm, nullptr));
                 }
                 team.Barrier();
                 if (team.rank() == 2) kill(getpid(), SIGKILL);
                 ExpectEnded(gpu, comm);
                 EXPECT_TRUE(LastErrorHas(Named(team, 2) + " was lost: its process ended"));
                 NCCL_OK(ncclCommAbort(comm));
               },
               {.may_die = 1U << 2});
}

TEST_F(Signals, ReplayThatARankHasNoPartInAnyMoreEnds) {
  const LogFile log;
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    ncclWaitSignalDesc_t one = {1, 1, 0, 0};
    gpu.BeginCapture();
    if (team.rank() == 0) {
      NCCL_OK(ncclWaitSignal(1, &one, comm, nullptr));
    }
    void* graph = gpu.EndCapture();
    NCCL_OK(ncclCommDestroy(comm));
    team.Barrier();
    if (team.rank() == 0) {
      gpu.Launch(graph);
      EXPECT_TRUE(gpu.Synchronize(30));
      gpu.DestroyGraph(graph);
    }
    team.Barrier();
  });
  EXPECT_TRUE(
      log.Has(" has ended the communicator and its graphs: a captured wait_signals waits for rank 1 (process "));
}

}  // namespace
}  // namespace sl::integration

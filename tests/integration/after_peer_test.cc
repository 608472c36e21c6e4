// SPDX-License-Identifier: Apache-2.0
//
// What a rank may still call once a peer has left, aborted, revoked or died: docs/after-a-peer.md has the table, and
// each of its cells is a test here, on hosts and on GPUs of the fake CUDA driver. Three ranks of which rank 1 goes;
// nothing is under way. A fourth process joins where the communicator grows.
#include <signal.h>

#include <map>
#include <vector>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

constexpr int kRanks = 3;
constexpr int kGone = 1;
constexpr int kNewcomer = 3;
// Far above what any call takes, so that a busy machine passes, and far below every limit of the defaults.
constexpr double kBoundSeconds = 15;

enum class Fate { kLeft, kAborted, kRevoked, kDied };
enum class Ask {
  kFinalize,
  kDestroy,
  kAbort,
  kAsyncError,
  kOperation,
  kSplit,
  kShrink,
  kShrinkAbort,
  kGrow,
  kRegister,
  kDeregister,
  kMemFree,
  kSuspend,
};

struct Cell {
  Fate fate;
  Ask ask;
  ncclResult_t wanted;
  const char* text = "";  // of the error
};

const char* NameOf(Fate fate) {
  constexpr const char* kNames[] = {"Left", "Aborted", "Revoked", "Died"};
  return kNames[static_cast<int>(fate)];
}

const char* NameOf(Ask ask) {
  constexpr const char* kNames[] = {"Finalize",    "Destroy", "Abort",    "AsyncError", "Operation", "Split",  "Shrink",
                                    "ShrinkAbort", "Grow",    "Register", "Deregister", "MemFree",   "Suspend"};
  return kNames[static_cast<int>(ask)];
}

// The table, a line a call.
constexpr const char* kName = "rank 1";
const Cell kTable[] = {
    {Fate::kLeft, Ask::kFinalize, ncclSuccess},
    {Fate::kAborted, Ask::kFinalize, ncclSuccess},
    {Fate::kRevoked, Ask::kFinalize, ncclSuccess},
    {Fate::kDied, Ask::kFinalize, ncclSuccess},

    {Fate::kLeft, Ask::kDestroy, ncclSuccess},
    {Fate::kAborted, Ask::kDestroy, ncclSuccess},
    {Fate::kRevoked, Ask::kDestroy, ncclSuccess},
    {Fate::kDied, Ask::kDestroy, ncclSuccess},

    {Fate::kLeft, Ask::kAbort, ncclSuccess},
    {Fate::kAborted, Ask::kAbort, ncclSuccess},
    {Fate::kRevoked, Ask::kAbort, ncclSuccess},
    {Fate::kDied, Ask::kAbort, ncclSuccess},

    {Fate::kLeft, Ask::kAsyncError, ncclSuccess},
    {Fate::kAborted, Ask::kAsyncError, ncclSuccess},
    {Fate::kRevoked, Ask::kAsyncError, ncclSuccess},
    {Fate::kDied, Ask::kAsyncError, ncclRemoteError, kName},

    {Fate::kLeft, Ask::kOperation, ncclRemoteError, kName},
    {Fate::kAborted, Ask::kOperation, ncclRemoteError, kName},
    {Fate::kRevoked, Ask::kOperation, ncclInvalidUsage, "revoked"},
    {Fate::kDied, Ask::kOperation, ncclRemoteError, kName},

    {Fate::kLeft, Ask::kSplit, ncclInvalidUsage, kName},
    {Fate::kAborted, Ask::kSplit, ncclRemoteError, kName},
    {Fate::kRevoked, Ask::kSplit, ncclSuccess},
    {Fate::kDied, Ask::kSplit, ncclRemoteError, kName},

    {Fate::kLeft, Ask::kShrink, ncclSuccess},
    {Fate::kAborted, Ask::kShrink, ncclSuccess},
    {Fate::kRevoked, Ask::kShrink, ncclSuccess},
    {Fate::kDied, Ask::kShrink, ncclRemoteError, "abort flag"},

    {Fate::kLeft, Ask::kShrinkAbort, ncclSuccess},
    {Fate::kAborted, Ask::kShrinkAbort, ncclSuccess},
    {Fate::kRevoked, Ask::kShrinkAbort, ncclSuccess},
    {Fate::kDied, Ask::kShrinkAbort, ncclSuccess},

    {Fate::kLeft, Ask::kGrow, ncclInvalidUsage, kName},
    {Fate::kAborted, Ask::kGrow, ncclRemoteError, kName},
    {Fate::kRevoked, Ask::kGrow, ncclSuccess},
    {Fate::kDied, Ask::kGrow, ncclRemoteError, kName},

    {Fate::kLeft, Ask::kRegister, ncclInvalidUsage, kName},
    {Fate::kAborted, Ask::kRegister, ncclRemoteError, kName},
    {Fate::kRevoked, Ask::kRegister, ncclSuccess},
    {Fate::kDied, Ask::kRegister, ncclRemoteError, kName},

    {Fate::kLeft, Ask::kDeregister, ncclSuccess},
    {Fate::kAborted, Ask::kDeregister, ncclSuccess},
    {Fate::kRevoked, Ask::kDeregister, ncclSuccess},
    {Fate::kDied, Ask::kDeregister, ncclSuccess},

    {Fate::kLeft, Ask::kMemFree, ncclSuccess},
    {Fate::kAborted, Ask::kMemFree, ncclSuccess},
    {Fate::kRevoked, Ask::kMemFree, ncclSuccess},
    {Fate::kDied, Ask::kMemFree, ncclSuccess},

    {Fate::kLeft, Ask::kSuspend, ncclInvalidUsage, kName},
    {Fate::kAborted, Ask::kSuspend, ncclRemoteError, kName},
    {Fate::kRevoked, Ask::kSuspend, ncclSuccess},
    {Fate::kDied, Ask::kSuspend, ncclRemoteError, kName},
};

// One rank of a communicator with a window and memory of its own.
struct Member {
  Team& team;
  ncclComm_t comm = nullptr;
  ncclUniqueId grown_id{};
  void* memory = nullptr;
  void* more = nullptr;
  ncclWindow_t window = nullptr;
  const FakeGpu* gpu;  // NULL: on a host

  void SetUp() {
    const ncclUniqueId id = team.MakeId();
    grown_id = team.MakeId();
    if (team.rank() < kRanks) {
      NCCL_OK(ncclCommInitRank(&comm, kRanks, id, team.rank()));
      NCCL_OK(ncclMemAlloc(&memory, 4096));
      NCCL_OK(ncclMemAlloc(&more, 4096));
      NCCL_OK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_DEFAULT));
      int one = 1;
      NCCL_OK(ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, nullptr));
      EXPECT_TRUE(IsIdle());
    }
    team.Barrier();
  }

  bool IsIdle() const { return gpu == nullptr || gpu->Synchronize(30); }

  // Of the rank that goes.
  void Go(Fate fate) {
    switch (fate) {
      case Fate::kLeft:
        NCCL_OK(ncclCommDestroy(comm));
        break;
      case Fate::kAborted:
        NCCL_OK(ncclCommAbort(comm));
        break;
      case Fate::kRevoked:
        NCCL_OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
        break;
      case Fate::kDied:
        raise(SIGKILL);
    }
  }

  ncclResult_t Call(Ask ask) {
    int excluded = kGone;
    ncclComm_t made = nullptr;
    ncclResult_t result = ncclInternalError;
    switch (ask) {
      case Ask::kFinalize:
        return ncclCommFinalize(comm);
      case Ask::kDestroy:
        return End(ncclCommDestroy);
      case Ask::kAbort:
        return End(ncclCommAbort);
      case Ask::kAsyncError:
        return AsyncError(comm);
      case Ask::kOperation:
        return Operate();
      case Ask::kSplit:
        result = ncclCommSplit(comm, 0, 0, &made, nullptr);
        break;
      case Ask::kShrink:
      case Ask::kShrinkAbort:
        result = ncclCommShrink(comm, &excluded, 1, &made, nullptr,
                                ask == Ask::kShrink ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT);
        break;
      case Ask::kGrow:
        result = ncclCommGrow(comm, kRanks + 1, team.rank() == 0 ? &grown_id : nullptr, -1, &made, nullptr);
        break;
      case Ask::kRegister: {
        ncclWindow_t second = nullptr;
        return ncclCommWindowRegister(comm, more, 4096, &second, NCCL_WIN_DEFAULT);
      }
      case Ask::kDeregister:
        return ncclCommWindowDeregister(comm, window);
      case Ask::kMemFree:
        return ncclMemFree(more);
      case Ask::kSuspend:
        return ncclCommSuspend(comm, NCCL_SUSPEND_MEM);
    }
    if (made != nullptr) {
      EXPECT_EQ(ncclCommAbort(made), ncclSuccess);
    }
    return result;
  }

 private:
  ncclResult_t End(ncclResult_t (*end)(ncclComm_t)) {
    const ncclResult_t result = end(comm);
    comm = nullptr;
    return result;
  }

  // Its outcome, wherever that is told. What waits for a rank that has revoked ends when this rank revokes, too.
  ncclResult_t Operate() {
    std::vector<int> values(64, 1);
    const HostStream stream;
    const ncclResult_t issued =
        ncclAllReduce(values.data(), values.data(), values.size(), ncclInt32, ncclSum, comm, stream_of(stream));
    if (issued != ncclSuccess) return issued;
    EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(comm) != ncclSuccess; }));
    EXPECT_TRUE(IsIdle());
    return AsyncError(comm);
  }
  cudaStream_t stream_of(const HostStream& stream) const { return gpu != nullptr ? nullptr : stream.get(); }
};

// Whether the rank that has gone takes part in a call, as it still can.
bool Serves(const Cell& cell) {
  const bool meets =
      cell.ask == Ask::kSplit || cell.ask == Ask::kGrow || cell.ask == Ask::kRegister || cell.ask == Ask::kSuspend;
  return cell.fate == Fate::kRevoked && meets;
}

// What waits for a rank that has revoked ends when the one that waits revokes, too.
ncclResult_t RevokeAnOperation(Member* member) {
  int value = 1;
  const HostStream stream;
  cudaStream_t queue = member->gpu != nullptr ? nullptr : stream.get();
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, member->comm, queue), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(member->comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_TRUE(member->IsIdle());
  EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(member->comm) == ncclSuccess; }));
  return ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, member->comm, queue);
}

void Survive(Member* member, const Cell& cell) {
  if (cell.fate == Fate::kDied) {
    EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(member->comm) != ncclSuccess; }));
  }
  const double begin = Seconds();
  const bool revokes = cell.fate == Fate::kRevoked && cell.ask == Ask::kOperation;
  const ncclResult_t result = revokes ? RevokeAnOperation(member) : member->Call(cell.ask);
  EXPECT_LT(Seconds() - begin, kBoundSeconds);
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_EQ(result, cell.wanted) << text;
  if (result != ncclSuccess) {
    EXPECT_NE(text.find(cell.text), std::string::npos) << text;
  }
  if (cell.ask == Ask::kFinalize) {
    EXPECT_EQ(ncclCommDestroy(std::exchange(member->comm, nullptr)), ncclSuccess) << ncclGetLastError(nullptr);
  }
}

// `later_ms`: the survivors call that long after the other has gone, when launches have been stopped for its end.
void RunCell(const Cell& cell, bool on_gpu, uint32_t later_ms = 0) {
  TeamOptions options;
  if (cell.fate == Fate::kDied) options.may_die = 1u << kGone;
  RunProcesses(
      kRanks + 1,
      [&](Team& team) {
        const auto gpu = on_gpu ? std::make_unique<FakeGpu>() : nullptr;
        Member member{.team = team, .gpu = gpu.get()};
        member.SetUp();
        std::atomic<uint64_t>& has_gone = team.word(0);
        std::atomic<uint64_t>& done = team.word(1);
        if (team.rank() == kNewcomer) {
          ncclComm_t grown = nullptr;
          if (Serves(cell) && cell.ask == Ask::kGrow) {
            NCCL_OK(ncclCommGrow(nullptr, kRanks + 1, &member.grown_id, kNewcomer, &grown, nullptr));
            NCCL_OK(ncclCommAbort(grown));
          }
          return;
        }
        if (team.rank() == kGone) {
          if (cell.fate == Fate::kDied) has_gone.store(1);
          member.Go(cell.fate);
          has_gone.store(1);
          if (Serves(cell)) {
            EXPECT_EQ(member.Call(cell.ask), cell.wanted) << ncclGetLastError(nullptr);
          }
          if (cell.fate == Fate::kLeft && cell.ask == Ask::kOperation)
            return;  // told when its process ends, at the latest
          EXPECT_TRUE(WaitUntil(60, [&] { return done.load() == kRanks - 1; }));
          if (cell.fate == Fate::kRevoked) {
            NCCL_OK(ncclCommAbort(member.comm));
          }
          return;
        }
        ASSERT_TRUE(WaitUntil(60, [&] { return has_gone.load() != 0; }));
        usleep(later_ms * 1000);
        Survive(&member, cell);
        ++done;
        EXPECT_TRUE(WaitUntil(60, [&] { return done.load() == kRanks - 1; }));
        if (member.comm != nullptr) {
          NCCL_OK(ncclCommAbort(member.comm));
        }
      },
      options);
}

std::string CellName(const testing::TestParamInfo<Cell>& info) {
  return std::string(NameOf(info.param.fate)) + NameOf(info.param.ask);
}

class OnHosts : public testing::TestWithParam<Cell> {
  const Environment device_{"STARLING_ROLES_DEVICE", "host"};
};
INSTANTIATE_TEST_SUITE_P(AfterAPeer, OnHosts, testing::ValuesIn(kTable), CellName);
TEST_P(OnHosts, Answers) { RunCell(GetParam(), false); }

class OnGpus : public Unwatched, public testing::WithParamInterface<Cell> {};
INSTANTIATE_TEST_SUITE_P(AfterAPeer, OnGpus, testing::ValuesIn(kTable), CellName);
TEST_P(OnGpus, Answers) { RunCell(GetParam(), true); }
// Rank 1 has gone while rank 0 has something under way.
void FinalizeInTheMiddle(Fate fate, bool on_gpu) {
  RunProcesses(2,
               [&](Team& team) {
                 const auto gpu = on_gpu ? std::make_unique<FakeGpu>() : nullptr;
                 const ncclComm_t comm = team.MakeComm();
                 ASSERT_NE(comm, nullptr);
                 std::atomic<uint64_t>& issued = team.word(0);
                 if (team.rank() == kGone) {
                   EXPECT_TRUE(WaitUntil(60, [&] { return issued.load() != 0; }));
                   if (fate == Fate::kDied) raise(SIGKILL);
                   NCCL_OK(ncclCommAbort(comm));
                   return;
                 }
                 HostStream stream;
                 int value = 1;
                 NCCL_OK(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, gpu ? nullptr : stream.get()));
                 issued.store(1);
                 EXPECT_EQ(ncclCommFinalize(comm), ncclRemoteError);
                 EXPECT_TRUE(LastErrorHas("rank 1"));
                 NCCL_OK(ncclCommDestroy(comm));
               },
               {.may_die = 1u << kGone});
}

// Of the table, those fates on which launches are stopped where nobody watches them.
std::vector<Cell> Stopping() {
  std::vector<Cell> cells;
  for (const Cell& cell : kTable) {
    if (cell.fate == Fate::kAborted || cell.fate == Fate::kDied) cells.push_back(cell);
  }
  return cells;
}

class OnGpusLater : public Unwatched, public testing::WithParamInterface<Cell> {};
INSTANTIATE_TEST_SUITE_P(AfterAPeer, OnGpusLater, testing::ValuesIn(Stopping()), CellName);
TEST_P(OnGpusLater, Answers) { RunCell(GetParam(), true, 300); }

class AfterAPeer : public Unwatched {};

TEST(AfterAPeerOnHosts, FinalizeFailsForAnOperationThatFailed) {
  const Environment device("STARLING_ROLES_DEVICE", "host");
  for (const Fate fate : {Fate::kAborted, Fate::kDied}) FinalizeInTheMiddle(fate, false);
}

TEST_F(AfterAPeer, FinalizeOnGpusFailsForAnOperationThatFailed) {
  for (const Fate fate : {Fate::kAborted, Fate::kDied}) FinalizeInTheMiddle(fate, true);
}

// As PyTorch does after a time-out in one rank: it aborts there, and the others shut down.
void FinalizeWithoutBlocking(Fate fate) {
  RunProcesses(2,
               [&](Team& team) {
                 ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                 config.blocking = 0;
                 ncclComm_t comm = nullptr;
                 const ncclUniqueId id = team.MakeId();
                 ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, team.rank(), &config), ncclInProgress);
                 ASSERT_TRUE(WaitUntil(20, [&] { return AsyncError(comm) == ncclSuccess; }));
                 team.Barrier();
                 if (team.rank() == kGone) {
                   if (fate == Fate::kDied) raise(SIGKILL);
                   NCCL_OK(ncclCommAbort(comm));
                   return;
                 }
                 const ncclResult_t begun = ncclCommFinalize(comm);
                 EXPECT_TRUE(begun == ncclInProgress || begun == ncclSuccess) << ncclGetLastError(nullptr);
                 EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(comm) != ncclInProgress; }));
                 EXPECT_EQ(AsyncError(comm), ncclSuccess) << ncclGetLastError(nullptr);
                 NCCL_OK(ncclCommDestroy(comm));
               },
               {.may_die = 1u << kGone});
}

TEST(AfterAPeerOnHosts, FinalizeThatDoesNotBlockSucceeds) {
  const Environment device("STARLING_ROLES_DEVICE", "host");
  for (const Fate fate : {Fate::kAborted, Fate::kDied}) FinalizeWithoutBlocking(fate);
}

// A rank that has failed says so to the others, whose own work is done.
TEST(AfterAPeerOnHosts, FinalizeSucceedsThoughAPeerReportsAFailure) {
  const Environment device("STARLING_ROLES_DEVICE", "host");
  const Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  RunProcesses(3, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    if (team.rank() == kGone) {
      EXPECT_NE(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
    } else {
      EXPECT_TRUE(WaitUntil(kBoundSeconds, [&] { return AsyncError(comm) == ncclRemoteError; }));
      NCCL_OK(ncclCommFinalize(comm));
    }
    NCCL_OK(ncclCommDestroy(comm));
    team.Barrier();
  });
}

TEST(AfterAPeerOnHosts, RankOfTheSameProcessIsNoDifferent) {
  const Environment device("STARLING_ROLES_DEVICE", "host");
  RunProcesses(1, [](Team&) {
    for (const bool finalizes : {true, false}) {
      ncclComm_t comms[3] = {};
      NCCL_OK(ncclCommInitAll(comms, 3, nullptr));
      NCCL_OK(ncclCommAbort(comms[kGone]));
      for (const int rank : {0, 2}) {
        if (finalizes) {
          NCCL_OK(ncclCommFinalize(comms[rank]));
        }
        NCCL_OK(ncclCommDestroy(comms[rank]));
      }
    }
  });
}

}  // namespace
}  // namespace sl::integration

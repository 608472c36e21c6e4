// SPDX-License-Identifier: Apache-2.0
//
// Sends, receives and communicators made of communicators, through nccl.h.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/integration/team.h"

namespace sl::integration {
namespace {

// What `from` sends to `to` in an all-to-all with uneven counts; some pairs exchange nothing.
size_t UnevenCount(int from, int to, int scale) { return static_cast<size_t>((from * 3 + to * 5) % 7 * scale); }
int32_t UnevenValue(int from, int to, size_t index) {
  return from * 1000000 + to * 10000 + static_cast<int>(index % 9999);
}

struct Messages {
  std::vector<std::vector<int32_t>> to, from;
};

Messages MakeMessages(int rank, int size, int scale) {
  Messages messages;
  for (int peer = 0; peer < size; ++peer) {
    auto& out = messages.to.emplace_back(UnevenCount(rank, peer, scale));
    for (size_t i = 0; i < out.size(); ++i) out[i] = UnevenValue(rank, peer, i);
    messages.from.emplace_back(UnevenCount(peer, rank, scale), -1);
  }
  return messages;
}

void IssueMessages(Messages* messages, int size, ncclComm_t comm, cudaStream_t stream) {
  for (int peer = 0; peer < size; ++peer) {
    const auto at = static_cast<size_t>(peer);
    NCCL_OK(ncclRecv(messages->from[at].data(), messages->from[at].size(), ncclInt32, peer, comm, stream));
    NCCL_OK(ncclSend(messages->to[at].data(), messages->to[at].size(), ncclInt32, peer, comm, stream));
  }
}

void CheckMessages(const Messages& messages, int rank) {
  for (size_t peer = 0; peer < messages.from.size(); ++peer) {
    for (size_t i = 0; i < messages.from[peer].size(); ++i) {
      ASSERT_EQ(messages.from[peer][i], UnevenValue(static_cast<int>(peer), rank, i)) << peer << " to " << rank;
    }
  }
}

// The own rank is among the peers.
TEST(Messages, OfUnevenAllToAllArriveOnProcesses) {
  for (int size : {1, 2, 3, 4}) {
    RunProcesses(size, [](Team& team) {
      const ncclComm_t comm = team.MakeComm();
      HostStream stream;
      for (int scale : {1, 100, 20000}) {
        for (cudaStream_t where : {static_cast<cudaStream_t>(nullptr), stream.get()}) {
          Messages messages = MakeMessages(team.rank(), team.size(), scale);
          NCCL_OK(ncclGroupStart());
          IssueMessages(&messages, team.size(), comm, where);
          NCCL_OK(ncclGroupEnd());
          ASSERT_TRUE(stream.Synchronize());
          CheckMessages(messages, team.rank());
        }
      }
      NCCL_OK(ncclCommDestroy(comm));
    });
  }
}

TEST(Messages, OfUnevenAllToAllArriveOnOneThread) {
  RunProcesses(1, [](Team&) {
    constexpr int kSize = 4;
    ncclComm_t comms[kSize];
    NCCL_OK(ncclCommInitAll(comms, kSize, nullptr));
    for (int scale : {1, 3000, 20000}) {
      std::vector<Messages> messages;
      for (int rank = 0; rank < kSize; ++rank) messages.push_back(MakeMessages(rank, kSize, scale));
      NCCL_OK(ncclGroupStart());
      for (int rank = 0; rank < kSize; ++rank) {
        IssueMessages(&messages[static_cast<size_t>(rank)], kSize, comms[rank], nullptr);
      }
      NCCL_OK(ncclGroupEnd());
      for (int rank = 0; rank < kSize; ++rank) CheckMessages(messages[static_cast<size_t>(rank)], rank);
    }
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST(Messages, KeepTheirOrderBetweenTwoRanks) {
  RunThreads(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    std::vector<int64_t> values(300, -1);
    for (size_t i = 0; i < values.size(); ++i) {
      if (team.rank() == 0) values[i] = static_cast<int64_t>(i);
      NCCL_OK(team.rank() == 0 ? ncclSend(&values[i], 1, ncclInt64, 1, comm, nullptr)
                               : ncclRecv(&values[i], 1, ncclInt64, 0, comm, nullptr));
    }
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<int64_t>(i));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Of many, only a few are looked at at a time; they differ in size, and so in the lanes they use.
void ExchangeMany(Team& team, cudaStream_t stream, const std::function<bool()>& wait, bool with_collective) {
  const ncclComm_t comm = team.MakeComm();
  const int count = 300;
  const auto size_of = [](int i) { return i % 50 == 7 ? size_t{100000} : static_cast<size_t>(1 + i % 5); };
  std::vector<std::vector<int>> sent;
  std::vector<std::vector<int>> received;
  for (int peer = 0; peer < team.size(); ++peer) {
    for (int i = 0; i < count; ++i) {
      sent.emplace_back(size_of(i), (team.rank() * 10 + peer) * 1000 + i);
      received.emplace_back(size_of(i), -1);
    }
  }
  int sum = 1;
  NCCL_OK(ncclGroupStart());
  for (int i = 0; i < count; ++i) {
    if (with_collective && i == count / 2) {
      NCCL_OK(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, comm, stream));
    }
    for (int peer = 0; peer < team.size(); ++peer) {
      const auto at = static_cast<size_t>(peer * count + i);
      NCCL_OK(ncclSend(sent[at].data(), sent[at].size(), ncclInt32, peer, comm, stream));
      NCCL_OK(ncclRecv(received[at].data(), received[at].size(), ncclInt32, peer, comm, stream));
    }
  }
  NCCL_OK(ncclGroupEnd());
  ASSERT_TRUE(wait());
  EXPECT_EQ(sum, with_collective ? team.size() : 1);
  for (int peer = 0; peer < team.size(); ++peer) {
    for (int i = 0; i < count; ++i) {
      const std::vector<int> wanted(size_of(i), (peer * 10 + team.rank()) * 1000 + i);
      ASSERT_EQ(received[static_cast<size_t>(peer * count + i)], wanted) << "message " << i << " from rank " << peer;
    }
  }
  NCCL_OK(ncclCommDestroy(comm));
}

TEST(Messages, OfALargeGroupArriveInOrder) {
  for (const bool with_collective : {false, true}) {
    RunProcesses(
        3,
        [with_collective](Team& team) {
          ExchangeMany(
              team, nullptr, [] { return true; }, with_collective);
          HostStream stream;
          ExchangeMany(
              team, stream.get(), [&stream] { return stream.Synchronize(60); }, with_collective);
        },
        Exiting());
  }
}

TEST(Messages, ToTheOwnRankNeedTheirReceiveInTheGroup) {
  RunProcesses(1, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    int value = 7;
    EXPECT_NE(ncclSend(&value, 1, ncclInt32, 0, comm, nullptr), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("a send to the own rank needs its receive in the same group"));
    int other = 0;
    EXPECT_NE(ncclRecv(&other, 1, ncclInt32, 0, comm, nullptr), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("a receive from the own rank needs its send in the same group"));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(&value, 1, ncclInt32, 0, comm, nullptr));
    NCCL_OK(ncclRecv(&other, 1, ncclInt32, 0, comm, nullptr));
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(other, 7);
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(&value, 1, ncclInt32, 0, comm, nullptr));
    NCCL_OK(ncclSend(&value, 1, ncclInt32, 0, comm, nullptr));
    NCCL_OK(ncclRecv(&other, 1, ncclInt32, 0, comm, nullptr));
    EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(LastErrorHas("sends itself 2 messages and receives 1 from itself"));
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// The sum of the ranks' parent numbers tells who is in a communicator.
int SumOver(ncclComm_t comm, int value) {
  int sum = 0;
  EXPECT_EQ(ncclAllReduce(&value, &sum, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess)
      << ncclGetLastError(nullptr);
  return sum;
}

TEST(Split, GroupsByColorAndOrdersByKey) {
  RunProcesses(4, [](Team& team) {
    const ncclComm_t world = team.MakeComm();
    ncclComm_t half = nullptr;
    NCCL_OK(ncclCommSplit(world, team.rank() % 2, -team.rank(), &half, nullptr));
    int rank = -1;
    int size = -1;
    NCCL_OK(ncclCommUserRank(half, &rank));
    NCCL_OK(ncclCommCount(half, &size));
    EXPECT_EQ(size, 2);
    EXPECT_EQ(rank, team.rank() < 2 ? 1 : 0);
    EXPECT_EQ(SumOver(half, 1 << team.rank()), team.rank() % 2 == 0 ? 5 : 10);
    EXPECT_EQ(SumOver(world, 1), 4);

    // Of a split, and with a rank that stays out.
    ncclComm_t three = nullptr;
    NCCL_OK(ncclCommSplit(world, team.rank() == 2 ? NCCL_SPLIT_NOCOLOR : 5, 0, &three, nullptr));
    EXPECT_EQ(three == nullptr, team.rank() == 2);
    EXPECT_EQ(three == nullptr ? 3 : SumOver(three, 1), 3);
    ncclComm_t alone = nullptr;
    NCCL_OK(ncclCommSplit(half, rank, 0, &alone, nullptr));
    EXPECT_EQ(SumOver(alone, 3), 3);
    NCCL_OK(ncclCommDestroy(alone));
    NCCL_OK(ncclCommDestroy(three));
    NCCL_OK(ncclCommDestroy(half));
    NCCL_OK(ncclCommDestroy(world));
  });
}

TEST(Split, OfOneThreadsRanksWorksInAGroup) {
  RunProcesses(1, [](Team&) {
    ncclComm_t world[4];
    ncclComm_t parts[4] = {};
    NCCL_OK(ncclCommInitAll(world, 4, nullptr));
    NCCL_OK(ncclGroupStart());
    for (int rank = 0; rank < 4; ++rank) {
      NCCL_OK(ncclCommSplit(world[rank], rank == 3 ? NCCL_SPLIT_NOCOLOR : rank / 2, 0, &parts[rank], nullptr));
    }
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(parts[3], nullptr);
    int sums[3] = {};
    int values[3] = {1, 2, 4};
    NCCL_OK(ncclGroupStart());
    for (int rank = 0; rank < 3; ++rank) {
      NCCL_OK(ncclAllReduce(&values[rank], &sums[rank], 1, ncclInt32, ncclSum, parts[rank], nullptr));
    }
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(sums[0], 3);
    EXPECT_EQ(sums[1], 3);
    EXPECT_EQ(sums[2], 4);
    for (int rank = 0; rank < 3; ++rank) NCCL_OK(ncclCommDestroy(parts[rank]));
    for (ncclComm_t comm : world) NCCL_OK(ncclCommDestroy(comm));
  });
}

bool BecomesReady(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  WaitUntil(20, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclInProgress; });
  EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(nullptr);
  return state == ncclSuccess;
}

TEST(NonBlocking, CommunicatorsAreMadeSplitUsedAndFinalized) {
  RunProcesses(3, [](Team& team) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t world = nullptr;
    const ncclUniqueId id = team.MakeId();
    const ncclResult_t made = ncclCommInitRankConfig(&world, team.size(), id, team.rank(), &config);
    ASSERT_TRUE(made == ncclSuccess || made == ncclInProgress) << ncclGetLastError(nullptr);
    ASSERT_TRUE(BecomesReady(world));
    EXPECT_EQ(SumOver(world, 1), 3);
    ncclComm_t part = nullptr;
    const ncclResult_t split = ncclCommSplit(world, team.rank() == 0 ? 0 : 1, 0, &part, &config);
    ASSERT_TRUE(split == ncclSuccess || split == ncclInProgress) << ncclGetLastError(nullptr);
    ASSERT_TRUE(BecomesReady(part));
    EXPECT_EQ(SumOver(part, 1), team.rank() == 0 ? 1 : 2);
    for (ncclComm_t comm : {part, world}) {
      const ncclResult_t ended = ncclCommFinalize(comm);
      ASSERT_TRUE(ended == ncclSuccess || ended == ncclInProgress) << ncclGetLastError(nullptr);
      ASSERT_TRUE(BecomesReady(comm));
      NCCL_OK(ncclCommDestroy(comm));
    }
  });
}

TEST(Windows, OfSharedMemoryServeCollectives) {
  RunProcesses(2, [](Team& team) {
    const ncclComm_t comm = team.MakeComm();
    constexpr size_t kCount = 50000;
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, kCount * sizeof(float)));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, kCount * sizeof(float), &window, NCCL_WIN_COLL_SYMMETRIC));
    auto* values = static_cast<float*>(memory);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(team.rank() + 1);
    NCCL_OK(ncclAllReduce(values, values, kCount, ncclFloat32, ncclSum, comm, nullptr));
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[kCount - 1], 3);
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclCommDestroy(comm));
    NCCL_OK(ncclMemFree(memory));
  });
}

}  // namespace
}  // namespace sl::integration

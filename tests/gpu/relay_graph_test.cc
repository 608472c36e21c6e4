// SPDX-License-Identifier: Apache-2.0
//
// Operations that pass host memory and are captured (kernel/runtime/relay_graph.h): right in every replay, also beside
// eager work and other graphs; ended by an abort, a rank that dies, a communicator that goes. Over the driver of
// device-cuda's tests.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/relay_rank.h"

namespace sl::gpu {
namespace {

using integration::Team;

cudaStream_t Native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }

// An all-reduce of integers whose input changes from replay to replay.
class Sum {
 public:
  Sum(const Team& team, size_t count)
      : rank_(team.rank()), size_(team.size()), host_(count), send_(Allocate(Bytes())), recv_(Allocate(Bytes())) {}
  ~Sum() {
    Free(send_);
    Free(recv_);
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;

  ncclResult_t Issue(ncclComm_t comm, CudaStream stream) const {
    return ncclAllReduce(send_, recv_, host_.size(), ncclInt32, ncclSum, comm, Native(stream));
  }
  void Fill(int value) {
    for (size_t i = 0; i < host_.size(); ++i) host_[i] = value * 1000 + rank_ + static_cast<int>(i % 7);
    ToDevice(send_, host_.data(), Bytes());
    std::fill(host_.begin(), host_.end(), -1);
    ToDevice(recv_, host_.data(), Bytes());
  }
  // Whether it holds the sum of what all ranks were filled with.
  bool Holds(int value) {
    FromDevice(host_.data(), recv_, Bytes());
    for (size_t i = 0; i < host_.size(); ++i) {
      const int one = value * 1000 + static_cast<int>(i % 7);
      if (host_[i] != one * size_ + size_ * (size_ - 1) / 2) return false;
    }
    return true;
  }

 private:
  size_t Bytes() const { return host_.size() * sizeof(int); }

  const int rank_;
  const int size_;
  std::vector<int> host_;
  void* send_;
  void* recv_;
};

CudaGraphExec CaptureOf(CudaStream stream, const std::function<void()>& issue) {
  BeginCapture(stream);
  issue();
  return EndCapture(stream);
}

constexpr size_t kPieceInts = kRelayPieceBytes / sizeof(int);
// Of one piece, of a few, and of more than there are slots.
constexpr size_t kCounts[] = {10, 2 * kPieceInts + 5, (2 * kRelaySlots + 1) * kPieceInts};

class RelayedGraphs : public testing::Test {};

TEST_F(RelayedGraphs, AreRightInEveryReplayBesideEagerWork) {
  integration::RunProcesses(3, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream streams[] = {MakeStream(), MakeStream()};
    std::vector<std::unique_ptr<Sum>> sums;
    for (const size_t count : kCounts) sums.push_back(std::make_unique<Sum>(team, count));
    Sum eager(team, 3 * kPieceInts);
    CudaGraphExec graph = CaptureOf(streams[0], [&] {
      for (const auto& sum : sums) NCCL_OK(sum->Issue(comm, streams[0]));
    });
    for (int replay = 0; replay < 6; ++replay) {
      for (const auto& sum : sums) sum->Fill(replay);
      eager.Fill(replay);
      // Every rank in an order of its own.
      const bool is_first = (replay + team.rank()) % 2 == 0;
      if (is_first) Launch(graph, streams[0]);
      NCCL_OK(eager.Issue(comm, streams[1]));
      if (!is_first) Launch(graph, streams[0]);
      for (const CudaStream stream : streams)
        ASSERT_TRUE(WaitFor(stream, kPatience)) << "replay " << replay << " hangs";
      for (const auto& sum : sums) ASSERT_TRUE(sum->Holds(replay)) << "replay " << replay;
      ASSERT_TRUE(eager.Holds(replay));
    }
    DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// More of them than captures have lanes, launched without a pause.
TEST_F(RelayedGraphs, FollowEachOtherAtOnce) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    std::vector<std::unique_ptr<Sum>> sums;
    std::vector<CudaGraphExec> graphs;
    for (int i = 0; i < 5; ++i) {
      sums.push_back(std::make_unique<Sum>(team, kCounts[i % 3]));
      graphs.push_back(CaptureOf(stream, [&] { NCCL_OK(sums.back()->Issue(comm, stream)); }));
      sums.back()->Fill(i);
    }
    for (int replay = 0; replay < 20; ++replay) Launch(graphs[0], stream);
    for (int round = 0; round < 10; ++round) {
      for (CudaGraphExec graph : graphs) Launch(graph, stream);
    }
    ASSERT_TRUE(WaitFor(stream, kPatience));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(sums[static_cast<size_t>(i)]->Holds(i)) << i;
    for (CudaGraphExec graph : graphs) DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Each rank sends more than all slots hold to all, itself included, and reduces in the same group.
TEST_F(RelayedGraphs, HoldGroupsOfMessagesAndCollectives) {
  integration::RunProcesses(3, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    constexpr size_t kBytes = 6 * kRelayPieceBytes + 13;
    std::vector<uint8_t> values(kBytes);
    std::vector<void*> sent, received;
    for (int peer = 0; peer < team.size(); ++peer) {
      sent.push_back(Allocate(kBytes));
      received.push_back(Allocate(kBytes));
    }
    Sum sum(team, 100);
    CudaGraphExec graph = CaptureOf(stream, [&] {
      NCCL_OK(ncclGroupStart());
      for (int peer = 0; peer < team.size(); ++peer) {
        const auto index = static_cast<size_t>(peer);
        NCCL_OK(ncclSend(sent[index], kBytes, ncclInt8, peer, comm, Native(stream)));
        NCCL_OK(ncclRecv(received[index], kBytes, ncclInt8, peer, comm, Native(stream)));
      }
      NCCL_OK(sum.Issue(comm, stream));
      NCCL_OK(ncclGroupEnd());
    });
    const auto value = [](int replay, int from, int to, size_t i) {
      return static_cast<uint8_t>(i * 7 + static_cast<size_t>(replay * 64 + from * 16 + to));
    };
    for (int replay = 0; replay < 3; ++replay) {
      sum.Fill(replay);
      for (int peer = 0; peer < team.size(); ++peer) {
        for (size_t i = 0; i < kBytes; ++i) values[i] = value(replay, team.rank(), peer, i);
        ToDevice(sent[static_cast<size_t>(peer)], values.data(), kBytes);
      }
      Launch(graph, stream);
      ASSERT_TRUE(WaitFor(stream, kPatience)) << "messages hang";
      EXPECT_TRUE(sum.Holds(replay));
      for (int peer = 0; peer < team.size(); ++peer) {
        FromDevice(values.data(), received[static_cast<size_t>(peer)], kBytes);
        for (size_t i = 0; i < kBytes; ++i) {
          ASSERT_EQ(values[i], value(replay, peer, team.rank(), i)) << i << " from rank " << peer;
        }
      }
    }
    DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Captures use the memory of those that are gone, whose return may lag a little behind; also where a capture forbids
// what is unsafe.
TEST_F(RelayedGraphs, UseTheMemoryOfThoseThatAreGone) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    const auto begin = reinterpret_cast<int (*)(CudaStream, int)>(dlsym(RTLD_DEFAULT, "cuStreamBeginCapture_v2"));
    ASSERT_NE(begin, nullptr);
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    Sum sum(team, kCounts[2]);
    const uint64_t taken = CallsOf("cuMemHostAlloc");
    constexpr int kRounds = 100;
    for (int round = 0; round < kRounds; ++round) {
      constexpr int kGlobal = 0;
      ASSERT_EQ(begin(stream, kGlobal), 0);
      NCCL_OK(sum.Issue(comm, stream));
      CudaGraphExec graph = EndCapture(stream);
      sum.Fill(round);
      Launch(graph, stream);
      ASSERT_TRUE(WaitFor(stream, kPatience));
      ASSERT_TRUE(sum.Holds(round));
      DestroyGraph(graph);
    }
    EXPECT_LT(CallsOf("cuMemHostAlloc") - taken, kRounds / 2u) << "each takes memory anew";
    EXPECT_EQ(CallsOf("cuLaunchHostFunc"), 0u) << "streams never wait for a host thread";
    NCCL_OK(ncclCommDestroy(comm));
    EXPECT_TRUE(integration::WaitUntil(5, [] { return CallsOf("cuMemHostAlloc") == CallsOf("cuMemFreeHost"); }));
    EXPECT_EQ(CallsOf("cuEventCreate"), CallsOf("cuEventDestroy"));
  });
}

TEST_F(RelayedGraphs, EndOnAbortAndForEver) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    std::vector<std::unique_ptr<Sum>> sums;
    for (const size_t count : kCounts) sums.push_back(std::make_unique<Sum>(team, count));
    CudaGraphExec graph = CaptureOf(stream, [&] {
      for (const auto& sum : sums) NCCL_OK(sum->Issue(comm, stream));
    });
    if (team.rank() == 0) {
      Launch(graph, stream);
      Launch(graph, stream);
      EXPECT_FALSE(WaitFor(stream, 0.05)) << "it waits for nobody";
      NCCL_OK(ncclCommAbort(comm));
      EXPECT_TRUE(WaitFor(stream, 1)) << "a wait of the stream was not released";
      Launch(graph, stream);
      EXPECT_TRUE(WaitFor(stream, 1)) << "a later replay waits";
    }
    team.Barrier();
    if (team.rank() == 1) {
      NCCL_OK(ncclCommAbort(comm));
    }
    DestroyGraph(graph);
    EXPECT_TRUE(integration::WaitUntil(5, [] { return CallsOf("cuMemHostAlloc") == CallsOf("cuMemFreeHost"); }))
        << "the memory of the graph is lost";
  });
}

TEST_F(RelayedGraphs, EndWhenARankDiesAndNameIt) {
  integration::TeamOptions options;
  options.may_die = 1u << 1;
  integration::RunProcesses(
      2,
      [](Team& team) {
        UseMyGpu(team.rank());
        ncclComm_t comm = team.MakeComm();
        const CudaStream stream = MakeStream();
        Sum sum(team, kCounts[1]);
        CudaGraphExec graph = CaptureOf(stream, [&] { NCCL_OK(sum.Issue(comm, stream)); });
        sum.Fill(1);
        Launch(graph, stream);
        ASSERT_TRUE(WaitFor(stream, kPatience));
        EXPECT_TRUE(sum.Holds(1));
        if (team.rank() == 1) kill(getpid(), SIGKILL);
        Launch(graph, stream);
        ASSERT_TRUE(WaitFor(stream, 5)) << "it waits for a dead rank";
        ncclResult_t state = ncclSuccess;
        ASSERT_TRUE(integration::WaitUntil(
            5, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess; }));
        EXPECT_NE(std::string(ncclGetLastError(comm)).find("rank 1"), std::string::npos) << ncclGetLastError(comm);
        Launch(graph, stream);
        EXPECT_TRUE(WaitFor(stream, 5)) << "a later replay waits";
        DestroyGraph(graph);
        NCCL_OK(ncclCommAbort(comm));
      },
      options);
}

// Nobody asks: the time limit ends a replay whose graph the other rank has not launched.
TEST_F(RelayedGraphs, EndWhenTheyWaitTooLong) {
  const integration::Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "300");
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    Sum sum(team, 1000);
    CudaGraphExec graph = CaptureOf(stream, [&] { NCCL_OK(sum.Issue(comm, stream)); });
    if (team.rank() == 0) {
      Launch(graph, stream);
      ASSERT_TRUE(WaitFor(stream, 10)) << "it waits for ever";
      const std::string text = ncclGetLastError(comm);
      EXPECT_NE(text.find("timeout after 300 ms"), std::string::npos) << text;
      EXPECT_NE(text.find("has not launched its graph"), std::string::npos) << text;
    }
    team.Barrier();
    NCCL_OK(ncclCommAbort(comm));
    DestroyGraph(graph);
  });
}

// Against the rule that graphs go first: later replays compute nothing, and end.
TEST_F(RelayedGraphs, OutliveTheirCommunicatorWithoutAHang) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    Sum sum(team, kCounts[2]);
    CudaGraphExec graphs[2];
    for (CudaGraphExec& graph : graphs) graph = CaptureOf(stream, [&] { NCCL_OK(sum.Issue(comm, stream)); });
    sum.Fill(3);
    for (CudaGraphExec graph : graphs) Launch(graph, stream);
    ASSERT_TRUE(WaitFor(stream, kPatience));
    EXPECT_TRUE(sum.Holds(3));
    DestroyGraph(graphs[0]);
    team.Barrier();
    NCCL_OK(ncclCommDestroy(comm));
    EXPECT_NE(CallsOf("cuMemHostAlloc"), CallsOf("cuMemFreeHost")) << "the graph may still copy";
    for (int replay = 0; replay < 3; ++replay) Launch(graphs[1], stream);
    EXPECT_TRUE(WaitFor(stream, 5)) << "it waits for a communicator that is gone";
    DestroyGraph(graphs[1]);
    EXPECT_TRUE(integration::WaitUntil(5, [] { return CallsOf("cuMemHostAlloc") == CallsOf("cuMemFreeHost"); }));
  });
}

}  // namespace
}  // namespace sl::gpu

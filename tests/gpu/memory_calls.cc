// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs, what is of memory and of members: buffers that programs map by hand, puts and signals, graphs
// that outlive others', communicators that grow. Part of gpu.calls_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

using integration::NcclCase;

cudaStream_t Native(CudaStream stream) { return reinterpret_cast<cudaStream_t>(stream); }

// Memory mapped by hand, as PyTorch's expandable segments are: many pieces side by side.
class Row {
 public:
  explicit Row(size_t pieces) : base_(Reserve(pieces * kPieceBytes)) {
    for (size_t i = 0; i < pieces; ++i) MapPiece(base_ + i * kPieceBytes, true);
  }
  // Other memory at the same place; `shared`: with a handle that peers can have.
  void MapAnew(size_t piece, bool shared) const {
    UnmapPiece(base_ + piece * kPieceBytes);
    MapPiece(base_ + piece * kPieceBytes, shared);
  }
  uint32_t* at(size_t offset) const { return reinterpret_cast<uint32_t*>(base_ + offset); }

 private:
  uint8_t* const base_;
};

std::vector<uint32_t> Values(size_t count, uint32_t salt) {
  std::vector<uint32_t> values(count);
  std::iota(values.begin(), values.end(), salt);
  return values;
}

// What a call sums: from the middle of a piece, across others; or of whole pieces.
struct Part {
  size_t begin;
  size_t bytes;

  size_t count() const { return bytes / sizeof(uint32_t); }
};
constexpr size_t kPieces = 12;
constexpr Part kMiddle = {kPieceBytes / 2, 10 * kPieceBytes};
constexpr Part kWhole = {0, kPieces* kPieceBytes};
constexpr Part kHead = {0, 4 * kPieceBytes};

void Fill(const GpuRank& me, const Row& send, const Part& part, uint32_t salt) {
  const std::vector<uint32_t> mine = Values(part.count(), salt + static_cast<uint32_t>(me.team.rank()));
  ToDevice(send.at(part.begin), mine.data(), part.bytes);
}

ncclResult_t Sum(const GpuRank& me, const Row& send, const Row& recv, const Part& part) {
  return ncclAllReduce(send.at(part.begin), recv.at(part.begin), part.count(), ncclUint32, ncclSum, me.comm,
                       Native(me.stream));
}

void ExpectSummed(const GpuRank& me, const Row& recv, const Part& part, uint32_t salt) {
  const auto ranks = static_cast<uint32_t>(me.team.size());
  std::vector<uint32_t> sums(part.count());
  FromDevice(sums.data(), recv.at(part.begin), part.bytes);
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_EQ(sums[i], ranks * (static_cast<uint32_t>(i) + salt) + ranks * (ranks - 1) / 2) << i;
  }
}

void ExpectSum(GpuRank& me, const Row& send, const Row& recv, const Part& part, uint32_t salt) {
  Fill(me, send, part, salt);
  const double begin = integration::Seconds();
  NCCL_OK(Sum(me, send, recv, part));
  const double called = integration::Seconds();
  ASSERT_TRUE(WaitFor(me.stream, kPatience));
  std::printf("rank %d: called in %.3f ms, done after %.3f ms\n", me.team.rank(), (called - begin) * 1e3,
              (integration::Seconds() - begin) * 1e3);
  ExpectSummed(me, recv, part, salt);
}

TEST_F(GpuReach, ReachesBuffersThatAreMappedByHand) {
  RunGpuRanks(Ranks(), [](GpuRank& me) {
    const Row send(kPieces);
    const Row recv(kPieces);
    for (uint32_t round = 0; round < 6; ++round) {
      ExpectSum(me, send, recv, kMiddle, round);
      me.team.Barrier();
      // Twice the same memory; then other memory at the same address; at last some that nobody can share.
      if (round >= 1) send.MapAnew(5, round != 4 || me.team.rank() != 0);
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// How long peers have for unmapping what is withdrawn too soon: they look every 10 ms.
constexpr auto kLate = std::chrono::milliseconds(500);

// The whole row is offered as one, and an operation on its head runs. Its last piece is another one meanwhile: no
// operation uses that, so the program may. A signal holds the first rank's stream, on whose GPU therefore no kernel
// runs, for which a driver might make the unmapping wait; so no rank has met the others yet when the last one comes.
TEST_F(GpuReach, KeepsARowForALateRankWhileAnotherPieceIsMappedAnew) {
  RunGpuRanks(std::max(2, Ranks()), [](GpuRank& me) {
    const Row send(kPieces);
    const Row recv(kPieces);
    const int last = me.team.size() - 1;
    for (uint32_t round = 0; round < 3; ++round) {
      ExpectSum(me, send, recv, kWhole, 10 * round);
      Fill(me, send, kHead, 10 * round + 1);
      me.team.Barrier();
      if (me.team.rank() == last) {
        std::this_thread::sleep_for(kLate);
        NCCL_OK(ncclSignal(0, 0, 0, 0, me.comm, Native(me.stream)));
      }
      ncclWaitSignalDesc_t from_last = {1, last, 0, 0};
      if (me.team.rank() == 0) {
        NCCL_OK(ncclWaitSignal(1, &from_last, me.comm, Native(me.stream)));
      }
      NCCL_OK(Sum(me, send, recv, kHead));
      if (me.team.rank() == 0) {
        for (const Row* row : {&send, &recv}) row->MapAnew(kPieces - 1, true);
      }
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "round " << round;
      ExpectSummed(me, recv, kHead, 10 * round + 1);
      me.team.Barrier();
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(GpuReach, KeepsARowForAGraphWhileAnotherPieceIsMappedAnew) {
  RunGpuRanks(std::max(2, Ranks()), [](GpuRank& me) {
    const Row send(kPieces);
    const Row recv(kPieces);
    ExpectSum(me, send, recv, kWhole, 0);
    BeginCapture(me.stream);
    NCCL_OK(Sum(me, send, recv, kHead));
    CudaGraphExec graph = EndCapture(me.stream);
    for (uint32_t round = 1; round < 4; ++round) {
      for (const Row* row : {&send, &recv}) row->MapAnew(kPieces - 1, true);
      Fill(me, send, kHead, round);
      std::this_thread::sleep_for(kLate);
      me.team.Barrier();
      Launch(graph, me.stream);
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "round " << round;
      ExpectSummed(me, recv, kHead, round);
      ExpectSum(me, send, recv, kWhole, 100 * round);
    }
    DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// A window for a block of every rank, and blocks to put there.
struct Blocks {
  static constexpr size_t kWords = 1 << 16;
  static constexpr size_t kBytes = kWords * sizeof(uint32_t);

  explicit Blocks(GpuRank& the_rank) : me(the_rank) {
    void* memory = nullptr;
    const size_t bytes = static_cast<size_t>(me.team.size()) * kBytes;
    EXPECT_EQ(ncclMemAlloc(&memory, bytes), ncclSuccess) << ncclGetLastError(nullptr);
    received = static_cast<uint8_t*>(memory);
    source = static_cast<uint8_t*>(Allocate(kBytes));
    EXPECT_EQ(ncclCommWindowRegister(me.comm, memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess)
        << ncclGetLastError(nullptr);
  }

  void Fill(uint32_t salt) const {
    ToDevice(source, Values(kWords, salt + static_cast<uint32_t>(me.team.rank())).data(), kBytes);
  }
  // Everybody puts its block into everybody's window, the own one included, and waits for all.
  ncclResult_t Exchange() const {
    std::vector<ncclWaitSignalDesc_t> wanted;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < me.team.size(); ++peer) {
      const size_t offset = static_cast<size_t>(me.team.rank()) * kBytes;
      EXPECT_EQ(ncclPutSignal(source, kWords, ncclUint32, peer, window, offset, 0, 0, 0, me.comm, Native(me.stream)),
                ncclSuccess)
          << ncclGetLastError(nullptr);
      wanted.push_back({1, peer, 0, 0});
    }
    EXPECT_EQ(ncclWaitSignal(me.team.size(), wanted.data(), me.comm, Native(me.stream)), ncclSuccess);
    return ncclGroupEnd();
  }
  void ExpectAll(uint32_t salt) const {
    std::vector<uint32_t> block(kWords);
    for (int peer = 0; peer < me.team.size(); ++peer) {
      FromDevice(block.data(), received + static_cast<size_t>(peer) * kBytes, kBytes);
      ASSERT_EQ(block, Values(kWords, salt + static_cast<uint32_t>(peer))) << "of rank " << peer;
    }
  }

  GpuRank& me;
  uint8_t* received = nullptr;
  uint8_t* source = nullptr;
  ncclWindow_t window = nullptr;
};

// Also where a rank is alone, and puts to itself.
TEST_F(GpuReach, PutsArriveBeforeTheirSignals) {
  const auto put = [](GpuRank& me) {
    const Blocks blocks(me);
    for (uint32_t round = 0; round < 50; ++round) {
      blocks.Fill(round * 1000);
      NCCL_OK(blocks.Exchange());
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "round " << round;
      blocks.ExpectAll(round * 1000);
      me.team.Barrier();
    }
    NCCL_OK(ncclCommWindowDeregister(me.comm, blocks.window));
    NCCL_OK(ncclCommDestroy(me.comm));
  };
  RunGpuRanks(Ranks(), put);
  RunGpuRanks(1, put);
}

TEST_F(GpuReach, CapturedPutsAreReplayed) {
  RunGpuRanks(Ranks(), [](GpuRank& me) {
    const Blocks blocks(me);
    BeginCapture(me.stream);
    NCCL_OK(blocks.Exchange());
    CudaGraphExec graph = EndCapture(me.stream);
    for (uint32_t round = 0; round < 20; ++round) {
      blocks.Fill(round * 1000);
      Launch(graph, me.stream);
      if (round % 3 == 0) {
        NCCL_OK(blocks.Exchange());  // eager signals are others
      }
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "round " << round;
      blocks.ExpectAll(round * 1000);
      me.team.Barrier();
    }
    for (int i = 0; i < 100; ++i) Launch(graph, me.stream);
    ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "replays that follow each other at once";
    DestroyGraph(graph);
    me.team.Barrier();
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(GpuReach, AbortEndsWaitsForSignals) {
  RunGpuRanks(2, [](GpuRank& me) {
    if (me.team.rank() == 0) {
      const CudaStream captured = MakeStream();
      ncclWaitSignalDesc_t two = {2, 1, 0, 0};
      BeginCapture(captured);
      NCCL_OK(ncclWaitSignal(1, &two, me.comm, Native(captured)));
      CudaGraphExec graph = EndCapture(captured);
      NCCL_OK(ncclWaitSignal(1, &two, me.comm, Native(me.stream)));
      ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
      const double begin = integration::Seconds();
      NCCL_OK(ncclCommAbort(me.comm));
      EXPECT_LT(integration::Seconds() - begin, 1.5) << "abort is bounded";
      ASSERT_TRUE(WaitFor(me.stream, 1)) << "the stream waits on";
      Launch(graph, captured);
      ASSERT_TRUE(WaitFor(captured, 5)) << "a replay waits for ever";
      DestroyGraph(graph);
    }
    me.team.Barrier();
    if (me.team.rank() == 1) {
      NCCL_OK(ncclCommAbort(me.comm));
    }
  });
}

// As a kernel's, in a graph too: the stream says in host memory that it has come to its wait.
TEST_F(GpuReach, EndsAWaitForSignalsThatLastsTooLong) {
  const integration::Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  for (const bool is_captured : {false, true}) {
    RunGpuRanks(2, [is_captured](GpuRank& me) {
      if (me.team.rank() == 0) {
        ncclWaitSignalDesc_t two = {2, 1, 0, 0};
        if (is_captured) BeginCapture(me.stream);
        NCCL_OK(ncclWaitSignal(1, &two, me.comm, Native(me.stream)));
        CudaGraphExec graph = is_captured ? EndCapture(me.stream) : nullptr;
        if (is_captured) Launch(graph, me.stream);
        ASSERT_TRUE(WaitFor(me.stream, 10)) << "it waits for ever";
        ncclResult_t state = ncclSuccess;
        ASSERT_TRUE(integration::WaitUntil(
            5, [&] { return ncclCommGetAsyncError(me.comm, &state) == ncclSuccess && state != ncclSuccess; }));
        const std::string text = ncclGetLastError(me.comm);
        EXPECT_NE(text.find("timeout after 1000 ms: "), std::string::npos) << text;
        EXPECT_NE(text.find("wait_signals waits for rank 1"), std::string::npos) << text;
        if (is_captured) DestroyGraph(graph);
      }
      me.team.Barrier();
      NCCL_OK(ncclCommAbort(me.comm));
    });
  }
}

// The other rank destroys its communicator and its graph first, against the rules: nothing is computed, nothing hangs.
TEST_F(GpuLaunches, EndsAReplayInWhichARankHasNoPartAnyMore) {
  RunGpuRanks(2, [](GpuRank& me) {
    NcclCase test;
    for (const size_t count : {size_t{1000}, size_t{1} << 22}) {
      test.count = count;
      ncclComm_t comm = me.team.MakeComm();
      GpuBuffers buffers(test, me.team.rank(), 2, 0);
      BeginCapture(me.stream);
      NCCL_OK(buffers.Issue(comm, me.stream));
      CudaGraphExec graph = EndCapture(me.stream);
      Launch(graph, me.stream);
      ASSERT_TRUE(WaitFor(me.stream, kPatience));
      EXPECT_EQ(buffers.Check(), "");
      me.team.Barrier();
      NCCL_OK(ncclCommDestroy(comm));
      if (me.team.rank() == 1) DestroyGraph(graph);
      WaitForDevice();
      me.team.Barrier();
      if (me.team.rank() == 0) {
        Launch(graph, me.stream);
        EXPECT_TRUE(WaitFor(me.stream, 10)) << "it waits for a rank that is gone";
        DestroyGraph(graph);
      }
      me.team.Barrier();
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(Gpu, GrowsByARank) {
  integration::RunProcesses(
      3,
      [](integration::Team& team) {
        UseMyGpu(team.rank());
        const CudaStream stream = MakeStream();
        const ncclUniqueId first = team.MakeId();
        const ncclUniqueId second = team.MakeId();
        NcclCase test;
        test.count = 1 << 20;
        ncclComm_t comm = nullptr;
        if (team.rank() != 2) {
          NCCL_OK(ncclCommInitRank(&comm, 2, first, team.rank()));
          ExpectRight(test, team.rank(), 2, comm, stream);
        }
        ncclComm_t grown = nullptr;
        NCCL_OK(ncclCommGrow(comm, 3, team.rank() != 1 ? &second : nullptr, comm == nullptr ? 2 : -1, &grown, nullptr));
        int rank = -1;
        NCCL_OK(ncclCommUserRank(grown, &rank));
        EXPECT_EQ(rank, team.rank());
        ExpectRight(test, rank, 3, grown, stream);
        if (comm != nullptr) {
          ExpectRight(test, team.rank(), 2, comm, stream);
          NCCL_OK(ncclCommDestroy(comm));
        }
        NCCL_OK(ncclCommDestroy(grown));
      },
      Patient());
}

}  // namespace
}  // namespace sl::gpu

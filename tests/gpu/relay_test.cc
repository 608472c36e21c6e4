// SPDX-License-Identifier: Apache-2.0
//
// What passes host memory because GPUs do not reach each other's (kernel/runtime/relay.h): right at the borders of
// pieces, in as many copies as there must be, in no more pinned memory than was allowed, and without a hang whatever
// happens. Over the driver of device-cuda's tests, which counts. calls_test runs over the relay, too; captures are in
// relay_graph_test.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/relay_rank.h"
#include "tests/net/network.h"

namespace sl::gpu {
namespace {

using integration::Kind;
using integration::kPremulSum;
using integration::NcclCase;
using integration::Team;

class RelayedGpus : public testing::Test {};

TEST_F(RelayedGpus, AreRightAroundTheBordersOfPieces) {
  integration::RunProcesses(3, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
      for (const ncclDataType_t type : {ncclInt8, ncclFloat32, ncclFloat64}) {
        for (const bool in_place : {false, true}) {
          // Of a block, where the operation has blocks, and of the whole, where it has not.
          const size_t whole = kRelayPieceBytes / integration::TypeBytes(type);
          for (const size_t piece : {whole, whole / 3}) {
            for (const size_t count :
                 {piece - 1, piece, piece + 1, kRelaySlots * piece, (kRelaySlots + 2) * piece + 7}) {
              NcclCase test;
              test.kind = static_cast<Kind>(kind);
              test.type = type;
              test.reduction = count % 2 == 0 ? static_cast<int>(ncclSum) : kPremulSum;
              test.count = count;
              test.root = 1;
              test.in_place = in_place;
              GpuBuffers buffers(test, team.rank(), team.size(), 1);
              NCCL_OK(buffers.Issue(comm, stream)) << test.ToString();
              ASSERT_TRUE(WaitFor(stream, kPatience)) << test.ToString() << " hangs";
              ASSERT_EQ(buffers.Check(), "");
            }
          }
        }
      }
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(RelayedGpus, CopyEachByteOnceEachWayAndTakePinnedMemoryOnce) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    NcclCase test;
    test.count = kRelayPieceBytes / 4;
    GpuBuffers whole(test, team.rank(), 2, 0);
    test.count *= 10;
    GpuBuffers cut(test, team.rank(), 2, 0);
    const uint64_t pinned = CallsOf("cuMemHostAlloc");
    const uint64_t streams = CallsOf("cuStreamCreate");
    uint64_t copies = CallsOf("cuMemcpyAsync");
    uint64_t events = CallsOf("cuEventRecord");
    NCCL_OK(whole.Issue(comm, stream));
    ASSERT_TRUE(WaitFor(stream, kPatience));
    EXPECT_EQ(CallsOf("cuMemcpyAsync") - copies, 2u);
    EXPECT_EQ(CallsOf("cuEventRecord") - events, 1u) << "only the end is marked";
    copies = CallsOf("cuMemcpyAsync");
    NCCL_OK(cut.Issue(comm, stream));
    ASSERT_TRUE(WaitFor(stream, kPatience));
    EXPECT_EQ(CallsOf("cuMemcpyAsync") - copies, 20u);
    EXPECT_EQ(CallsOf("cuLaunchHostFunc"), 0u) << "streams never wait for a host thread";
    EXPECT_EQ(CallsOf("cuMemHostAlloc"), pinned) << "operations take pinned memory";
    EXPECT_EQ(CallsOf("cuStreamCreate"), streams);
    EXPECT_EQ(whole.Check() + cut.Check(), "");
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(RelayedGpus, GiveBackWhatACommunicatorTook) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    for (int round = 0; round < 5; ++round) {
      ncclComm_t comm = team.MakeComm();
      NCCL_OK(ncclCommDestroy(comm));
    }
    EXPECT_EQ(CallsOf("cuMemHostAlloc"), CallsOf("cuMemFreeHost"));
    EXPECT_EQ(CallsOf("cuEventCreate"), CallsOf("cuEventDestroy"));
  });
}

// Every rank sends far more than all slots hold to all others before it receives.
TEST_F(RelayedGpus, ExchangeMoreInAGroupThanSlotsHold) {
  integration::RunProcesses(4, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const auto stream = reinterpret_cast<cudaStream_t>(MakeStream());
    constexpr size_t kBytes = 9 * kRelayPieceBytes + 13;
    const int size = team.size();
    std::vector<uint8_t> values(kBytes);
    std::vector<void*> sent, received;
    for (int peer = 0; peer < size; ++peer) {
      for (size_t i = 0; i < kBytes; ++i)
        values[i] = static_cast<uint8_t>(i * 7 + static_cast<size_t>(team.rank() * 16 + peer));
      sent.push_back(Allocate(kBytes));
      received.push_back(Allocate(kBytes));
      ToDevice(sent.back(), values.data(), kBytes);
    }
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < size; ++peer)
      NCCL_OK(ncclSend(sent[static_cast<size_t>(peer)], kBytes, ncclInt8, peer, comm, stream));
    for (int peer = size - 1; peer >= 0; --peer) {
      NCCL_OK(ncclRecv(received[static_cast<size_t>(peer)], kBytes, ncclInt8, peer, comm, stream));
    }
    NCCL_OK(ncclGroupEnd());
    ASSERT_TRUE(WaitFor(stream, kPatience)) << "messages hang";
    for (int peer = 0; peer < size; ++peer) {
      FromDevice(values.data(), received[static_cast<size_t>(peer)], kBytes);
      for (size_t i = 0; i < kBytes; ++i) {
        ASSERT_EQ(values[i], static_cast<uint8_t>(i * 7 + static_cast<size_t>(peer * 16 + team.rank())))
            << i << " from rank " << peer;
      }
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// The stream of a rank whose call differs does not hang, and both hear why.
TEST_F(RelayedGpus, TellCallsThatDifferAndEndTheirStreams) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    NcclCase test;
    test.count = team.rank() == 0 ? 1000 : 50000;
    GpuBuffers buffers(test, team.rank(), 2, 0);
    NCCL_OK(buffers.Issue(comm, stream));
    ASSERT_TRUE(WaitFor(stream, kPatience)) << "the stream hangs";
    ncclResult_t state = ncclSuccess;
    ASSERT_TRUE(integration::WaitUntil(
        5, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess; }));
    const std::string text = ncclGetLastError(comm);
    EXPECT_NE(text.find("all_reduce of 1000 float32"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce of 50000 float32"), std::string::npos) << text;
    NCCL_OK(ncclCommAbort(comm));
  });
}

// Many operations are under way, long ones among them, when one rank gives up.
TEST_F(RelayedGpus, EndAllWaitsOfAStreamOnAbort) {
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    if (team.rank() == 0) {
      const CudaStream stream = MakeStream();
      std::vector<std::unique_ptr<GpuBuffers>> all;
      for (int call = 0; call < 40; ++call) {
        NcclCase test;
        test.count = call % 4 == 0 ? 60000 : 10;
        all.push_back(std::make_unique<GpuBuffers>(test, 0, 2, 0));
        NCCL_OK(all.back()->Issue(comm, stream));
      }
      EXPECT_FALSE(WaitFor(stream, 0.05));
      NCCL_OK(ncclCommAbort(comm));
      EXPECT_TRUE(WaitFor(stream, 1)) << "a wait of the stream was not released";
    }
    team.Barrier();
    if (team.rank() == 1) {
      NCCL_OK(ncclCommAbort(comm));
    }
  });
}

// Nobody said so: each finds out when it is to map the memory of the other.
TEST_F(RelayedGpus, GoThroughTheHostWhereTheyHaveNoPeerAccess) {
  const integration::Environment apart("SL_FAKE_CUDA_PEERS", "0");
  const integration::Environment by_plans("STARLING_COMM_HOST_HEAP", "false");
  const integration::Environment by_default("STARLING_PROFILE", "auto");
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    const CudaStream stream = MakeStream();
    NcclCase test;
    test.count = 100000;
    GpuBuffers buffers(test, team.rank(), 2, 0);
    NCCL_OK(buffers.Issue(comm, stream));
    ASSERT_TRUE(WaitFor(stream, kPatience));
    EXPECT_EQ(buffers.Check(), "");
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// One cannot pin memory that the ranks share, so that plans carry operations for all, and go on doing so when it could.
TEST_F(RelayedGpus, StayWithPlansWhereOneOfThemCannotPin) {
  const integration::Environment apart("SL_FAKE_CUDA_PEERS", "0");
  const integration::Environment by_default("STARLING_PROFILE", "auto");
  integration::RunProcesses(2, [](Team& team) {
    UseMyGpu(team.rank());
    if (team.rank() == 1) setenv("SL_FAKE_CUDA_REGISTER", "0", 1);
    ncclComm_t comm = team.MakeComm();
    ASSERT_NE(comm, nullptr);
    const CudaStream stream = MakeStream();
    const auto expect_right = [&] {
      NcclCase test;
      test.count = 100000;
      GpuBuffers buffers(test, team.rank(), 2, 0);
      NCCL_OK(buffers.Issue(comm, stream));
      ASSERT_TRUE(WaitFor(stream, kPatience));
      EXPECT_EQ(buffers.Check(), "");
    };
    expect_right();
    unsetenv("SL_FAKE_CUDA_REGISTER");
    NCCL_OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    NCCL_OK(ncclCommResume(comm));
    expect_right();
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// Two hosts with two GPUs each, by the default profile.
TEST_F(RelayedGpus, CrossBetweenHosts) {
  const net::Network network(2);
  if (!network.missing().empty()) GTEST_SKIP() << network.missing();
  const integration::Environment by_default("STARLING_PROFILE", "auto");
  const integration::Environment small("STARLING_COMM_RELAY_BYTES", "262144");
  integration::RunProcesses(4, [&network](Team& team) {
    network.Enter(team.rank() / 2);
    UseMyGpu(team.rank());
    ncclComm_t comm = team.MakeComm();
    const CudaStream stream = MakeStream();
    for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
      for (const size_t count : {size_t{3}, size_t{50000}}) {
        NcclCase test;
        test.kind = static_cast<Kind>(kind);
        test.count = count;
        GpuBuffers buffers(test, team.rank(), team.size(), 0);
        NCCL_OK(buffers.Issue(comm, stream));
        ASSERT_TRUE(WaitFor(stream, kPatience)) << test.ToString() << " hangs";
        EXPECT_EQ(buffers.Check(), "");
      }
    }
    NCCL_OK(ncclCommDestroy(comm));
  });
}

// A rank that has not selected a GPU would be on host memory.
TEST_F(RelayedGpus, AreNotMixedWithHostMemory) {
  integration::RunProcesses(2, [](Team& team) {
    if (team.rank() == 0) UseMyGpu(0);
    const ncclUniqueId id = team.MakeId();
    ncclComm_t comm = nullptr;
    EXPECT_NE(ncclCommInitRank(&comm, team.size(), id, team.rank()), ncclSuccess);
    EXPECT_TRUE(integration::LastErrorHas("CUDA_VISIBLE_DEVICES"));
  });
}

}  // namespace
}  // namespace sl::gpu

// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs: groups of more sends and receives than one launch takes, and calls that fail half-way. Part of
// gpu.calls_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

// counts[from][to]: messages.
using Counts = std::vector<std::vector<size_t>>;

// Of a launch, by the arguments that drivers take of it.
size_t MostMessages() { return DriverVersion() >= 12010 ? 1304 : 110; }

uint64_t Launches() { return CallsOf("cuLaunchKernelEx") + CallsOf("cuLaunchKernel"); }

// From one byte to what peers store into each other's buffers; some pass the mail, some an inbox.
size_t BytesOf(size_t from, size_t to, size_t number) {
  const size_t salt = from * 7 + to * 13 + number;
  if (salt % 400 == 399) return 600'000 + salt;
  if (salt % 40 == 39) return 5'000 + salt;
  return 1 + salt * 37 % 300;
}

// One end of all messages of a rank, one behind the other in one buffer of the GPU.
class Side {
 public:
  Side(const Counts& counts, size_t rank, bool sends) : rank_(rank), sends_(sends), at_(counts.size()) {
    size_t bytes = 0;
    for (size_t peer = 0; peer < counts.size(); ++peer) {
      for (size_t i = 0; i < (sends ? counts[rank][peer] : counts[peer][rank]); ++i) {
        at_[peer].push_back(bytes);
        bytes += Bytes(peer, i);
      }
    }
    host_.resize(bytes);
    memory_ = static_cast<uint8_t*>(Allocate(bytes + 16));
  }
  ~Side() { Free(memory_); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void Fill(uint32_t salt) {
    EachMessage(
        [&](size_t peer, size_t i) { std::iota(At(peer, i), At(peer, i) + Bytes(peer, i), First(peer, i, salt)); });
    Clear();
  }
  void Clear() { ToDevice(memory_, host_.data(), host_.size()); }
  size_t CountWrong(uint32_t salt) {
    FromDevice(host_.data(), memory_, host_.size());
    size_t wrong = 0;
    EachMessage([&](size_t peer, size_t i) {
      std::vector<uint8_t> wanted(Bytes(peer, i));
      std::iota(wanted.begin(), wanted.end(), First(peer, i, salt));
      wrong += std::equal(wanted.begin(), wanted.end(), At(peer, i)) ? 0 : 1;
    });
    std::fill(host_.begin(), host_.end(), uint8_t{0});
    return wrong;
  }
  // All messages, those with each peer in order, else shuffled.
  void Issue(const GpuRank& me, const Side& other, std::mt19937& random) const {
    std::vector<std::pair<const Side*, size_t>> calls;
    for (const Side* side : {this, &other}) {
      for (size_t peer = 0; peer < at_.size(); ++peer) calls.insert(calls.end(), side->at_[peer].size(), {side, peer});
    }
    std::shuffle(calls.begin(), calls.end(), random);
    std::vector<size_t> sent(at_.size()), received(at_.size());
    for (const auto& [side, peer] : calls) side->Call(me, peer, (side->sends_ ? sent : received)[peer]++);
  }

 private:
  template <typename Do>
  void EachMessage(const Do& act) {
    for (size_t peer = 0; peer < at_.size(); ++peer) {
      for (size_t i = 0; i < at_[peer].size(); ++i) act(peer, i);
    }
  }
  size_t Bytes(size_t peer, size_t i) const { return sends_ ? BytesOf(rank_, peer, i) : BytesOf(peer, rank_, i); }
  uint8_t First(size_t peer, size_t i, uint32_t salt) const {
    const size_t pair = sends_ ? rank_ * 16 + peer : peer * 16 + rank_;
    return static_cast<uint8_t>(pair * 31 + i * 7 + salt);
  }
  uint8_t* At(size_t peer, size_t i) { return host_.data() + at_[peer][i]; }
  void Call(const GpuRank& me, size_t peer, size_t i) const {
    const auto stream = reinterpret_cast<cudaStream_t>(me.stream);
    const auto to = static_cast<int>(peer);
    NCCL_OK(sends_ ? ncclSend(memory_ + at_[peer][i], Bytes(peer, i), ncclUint8, to, me.comm, stream)
                   : ncclRecv(memory_ + at_[peer][i], Bytes(peer, i), ncclUint8, to, me.comm, stream));
  }

  const size_t rank_;
  const bool sends_;
  std::vector<std::vector<size_t>> at_;  // [peer][number]
  std::vector<uint8_t> host_;
  uint8_t* memory_ = nullptr;
};

// One group, eager and captured, with different data each time.
void ExpectGroupRight(const Counts& counts) {
  RunGpuRanks(static_cast<int>(counts.size()), [&counts](GpuRank& me) {
    const auto rank = static_cast<size_t>(me.team.rank());
    Side send(counts, rank, true);
    Side recv(counts, rank, false);
    std::mt19937 random(static_cast<uint32_t>(rank));
    size_t transfers = std::accumulate(counts[rank].begin(), counts[rank].end(), size_t{0});
    for (const auto& row : counts) transfers += row[rank];
    const auto issue = [&] {
      const uint64_t before = Launches();
      NCCL_OK(ncclGroupStart());
      send.Issue(me, recv, random);
      NCCL_OK(ncclGroupEnd());
      const uint64_t launches = Launches() - before;
      if (FromEnvironment("SL_GPU_RELAYED", 0) != 0 || CallsOf("cuInit") == 0) return;
      EXPECT_GE(launches, (transfers + MostMessages() - 1) / MostMessages());
      EXPECT_LE(launches, 1 + transfers / (MostMessages() * 6 / 7));
      if (transfers <= MostMessages()) {
        EXPECT_EQ(launches, 1u) << "what fits one launch pays for no other";
      }
    };
    const auto expect_right = [&](uint32_t salt) {
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "the group hangs";
      EXPECT_EQ(recv.CountWrong(salt), 0u) << "of " << transfers << " on rank " << rank;
      me.team.Barrier();
    };
    const auto begin = [&](uint32_t salt) {
      send.Fill(salt);
      recv.Clear();
      me.team.Barrier();
    };
    begin(1);
    issue();
    expect_right(1);
    BeginCapture(me.stream);
    issue();
    CudaGraphExec graph = EndCapture(me.stream);
    begin(2);
    Launch(graph, me.stream);
    expect_right(2);
    DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(Gpu, MovesGroupsOfThousandsOfMessages) { ExpectGroupRight({{0, 3000}, {3000, 0}}); }

TEST_F(Gpu, MovesGroupsThatPairsOfRanksFillUnequally) {
  ExpectGroupRight({{40, 2500, 1}, {300, 0, 1700}, {900, 0, 5}});
}

TEST_F(Gpu, MovesAGroupInOneLaunchThatFits) { ExpectGroupRight({{2, 20, 3}, {5, 0, 4}, {9, 0, 5}}); }

// Odd ranks call the second communicator first, all on one stream each: a collective of every communicator, and a
// message round.
void ServeCommunicatorsInAnyOrder(size_t size) {
  ASSERT_EQ(OpenCuda(), "");
  std::vector<int> devices;
  for (size_t rank = 0; rank < size; ++rank) devices.push_back(static_cast<int>(rank) % DeviceCount());
  std::vector<ncclComm_t> comms[2] = {std::vector<ncclComm_t>(size), std::vector<ncclComm_t>(size)};
  UseDevice(0);
  for (auto& all : comms) NCCL_OK(ncclCommInitAll(all.data(), static_cast<int>(size), devices.data()));
  std::vector<CudaStream> streams;
  std::vector<int32_t*> memory;
  for (size_t rank = 0; rank < size; ++rank) {
    UseDevice(devices[rank]);
    streams.push_back(MakeStream());
    memory.push_back(static_cast<int32_t*>(Allocate(6 * sizeof(int32_t))));
    const int32_t mine[6] = {1, 2, static_cast<int32_t>(rank), static_cast<int32_t>(rank + size), -1, -1};
    ToDevice(memory[rank], mine, sizeof(mine));
  }
  NCCL_OK(ncclGroupStart());
  for (size_t rank = 0; rank < size; ++rank) {
    const auto stream = reinterpret_cast<cudaStream_t>(streams[rank]);
    int32_t* const own = memory[rank];
    for (const size_t i : {rank % 2, (rank + 1) % 2}) {
      const auto ranks = static_cast<int>(size);
      const auto me = static_cast<int>(rank);
      NCCL_OK(ncclAllReduce(own + i, own + i, 1, ncclInt32, ncclSum, comms[i][rank], stream));
      NCCL_OK(ncclSend(own + 2 + i, 1, ncclInt32, (me + 1) % ranks, comms[i][rank], stream));
      NCCL_OK(ncclRecv(own + 4 + i, 1, ncclInt32, (me + ranks - 1) % ranks, comms[i][rank], stream));
    }
  }
  NCCL_OK(ncclGroupEnd());
  for (size_t rank = 0; rank < size; ++rank) {
    UseDevice(devices[rank]);
    ASSERT_TRUE(WaitFor(streams[rank], kPatience)) << "rank " << rank << " hangs";
    std::vector<int32_t> got(6);
    FromDevice(got.data(), memory[rank], 6 * sizeof(int32_t));
    const auto before = static_cast<int32_t>((rank + size - 1) % size);
    const auto ranks = static_cast<int32_t>(size);
    const auto me = static_cast<int32_t>(rank);
    EXPECT_EQ(got, (std::vector<int32_t>{ranks, 2 * ranks, me, me + ranks, before, before + ranks}));
    Free(memory[rank]);
    DestroyStream(streams[rank]);
  }
  for (const auto& all : comms) {
    for (ncclComm_t comm : all) NCCL_OK(ncclCommDestroy(comm));
  }
}

TEST_F(Gpu, ServesCommunicatorsOfOneThreadInAnyOrder) {
  const integration::Environment several("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  const auto size = static_cast<size_t>(Ranks());
  integration::RunProcesses(
      1, [size](integration::Team&) { ServeCommunicatorsInAnyOrder(size); }, Patient());
}

// What runs when memory goes would write to it.
void ExpectAbortAwaitsWhatRuns(GpuRank& me) {
  EXPECT_FALSE(WaitFor(me.stream, 0)) << "nothing runs: the test proves nothing";
  NCCL_OK(ncclCommAbort(me.comm));
  EXPECT_TRUE(WaitFor(me.stream, 0)) << "a kernel runs on in memory that is gone";
}

TEST_F(GpuLaunches, KeepsMemoryForTheLaunchesOfAGroupThatFailedHalfWay) {
  RunGpuRanks(2, [](GpuRank& me) {
    void* memory = Allocate(8192);
    auto* const first = static_cast<float*>(memory);
    const auto stream = reinterpret_cast<cudaStream_t>(me.stream);
    if (me.team.rank() == 1 && FailCall("cuLaunchKernelEx", 1)) {
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclAllReduce(first, first, 1024, ncclFloat, ncclSum, me.comm, stream));
      NCCL_OK(ncclAllReduce(first + 1024, first + 1024, 1024, ncclFloat, ncclSum, me.comm, stream));
      EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
      ExpectAbortAwaitsWhatRuns(me);
    } else {
      NCCL_OK(ncclCommAbort(me.comm));
    }
    me.team.Barrier();
    Free(memory);
  });
}

TEST_F(GpuLaunches, EndsALaunchWhoseEndCannotBeMarked) {
  RunGpuRanks(2, [](GpuRank& me) {
    void* memory = Allocate(4096);
    if (me.team.rank() == 1 && FailCall("cuEventRecord", 0)) {
      EXPECT_EQ(
          ncclAllReduce(memory, memory, 1024, ncclFloat, ncclSum, me.comm, reinterpret_cast<cudaStream_t>(me.stream)),
          ncclUnhandledCudaError);
      EXPECT_TRUE(WaitFor(me.stream, 0)) << "nobody would know when it ends";
      ncclResult_t state = ncclSuccess;
      NCCL_OK(ncclCommGetAsyncError(me.comm, &state));
      EXPECT_EQ(state, ncclUnhandledCudaError);
    }
    me.team.Barrier();
    NCCL_OK(ncclCommAbort(me.comm));
    Free(memory);
  });
}

}  // namespace
}  // namespace sl::gpu

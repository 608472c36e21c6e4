// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs against the oracle: random calls, the same on all ranks, eager and in graphs, on threads, on
// processes and on one thread with groups; aborts, revocations, and ranks that die. What is of memory and of members
// stands in memory_calls.cc, what copy engines do in copy_calls.cc.
//
//   --ranks N, SL_GPU_RANKS  ranks of a communicator (2, or the GPUs when there are more)
//   --calls N, SL_GPU_CALLS  random calls of a test (400)
//   --seed N, SL_GPU_SEED    from which they are drawn (1)
//   --comms N, SL_GPU_COMMS  communicators that are made and destroyed (20)
//   --aborts N, SL_GPU_ABORTS  communicators that are aborted in the middle of their work (10)
//   SL_GPU_LARGEST  elements of the largest calls, as a power of two (22)
//   SL_GPU_APART    1: GPUs do not reach each other's memory, their kernels meet in the host's
//   SL_GPU_RELAYED  1: plans carry operations through the host
//   SL_GPU_NEEDED   1: a machine without a GPU is a failure
//   SL_GPU_ARENA    bytes that a rank takes of its GPU for buffers (1 GiB)
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "tests/gpu/gpu_rank.h"

namespace sl::gpu {
namespace {

using integration::Kind;
using integration::kPremulSum;
using integration::NcclCase;
using integration::Team;
using integration::TeamOptions;

int Aborts() { return FromEnvironment("SL_GPU_ABORTS", 10); }

// Tests draw different calls from one seed.
uint32_t Seed(uint32_t test) { return static_cast<uint32_t>(FromEnvironment("SL_GPU_SEED", 1)) * 2 + test - 2; }

// What all ranks draw alike, and what is each rank's own choice.
class Soak {
 public:
  // The default stream is one for all threads that share a GPU.
  Soak(Team& team, uint32_t seed, bool threads)
      : team_(team), size_(team.size()), common_(seed), own_(seed * 31 + static_cast<uint32_t>(team.rank())) {
    UseMyGpu(team.rank());
    default_stream_ = !threads || size_ <= DeviceCount();
    comm_ = team.MakeComm();
    for (CudaStream& stream : streams_) stream = MakeStream();
  }
  ~Soak() {
    for (CudaStream stream : streams_) DestroyStream(stream);
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  void Run(int calls) {
    for (int call = 0; call < calls && !testing::Test::HasFailure(); ++call) {
      const uint32_t what = common_() % 12;
      if (what == 0) {
        Group(static_cast<int>(common_() % 4) + 1);
      } else if (what == 1) {
        Messages();
      } else if (what == 2) {
        Graph(static_cast<int>(common_() % 4) + 1);
      } else {
        Issue(NextCase(), OwnStream());
      }
      if (own_() % 4 == 0 || pending_.size() > 12) Settle();
    }
    Settle();
    NCCL_OK(ncclCommDestroy(comm_));
  }

 private:
  NcclCase NextCase() {
    NcclCase test;
    test.kind = static_cast<Kind>(common_() % static_cast<uint32_t>(Kind::kCount));
    test.type = static_cast<ncclDataType_t>(common_() % ncclNumTypes);
    const uint32_t reduction = common_() % 6;
    test.reduction = reduction == 5 ? kPremulSum : static_cast<int>(reduction);
    const uint32_t magnitude = common_() % 32 == 0 ? largest_ : common_() % 18;
    test.count = common_() % (uint32_t{1} << magnitude);
    test.root = static_cast<int>(common_() % static_cast<uint32_t>(size_));
    test.in_place = common_() % 2 != 0;
    test.salt = common_();
    return test;
  }

  CudaStream OwnStream() {
    const uint32_t choice = own_() % 4;
    return choice == 0 && default_stream_ ? nullptr : streams_[choice % 2];
  }

  GpuBuffers* Buffers(const NcclCase& test) {
    return pending_.emplace_back(std::make_unique<GpuBuffers>(test, team_.rank(), size_, own_() % 4)).get();
  }

  void Issue(const NcclCase& test, CudaStream stream) {
    GpuBuffers* buffers = Buffers(test);
    if (own_() % 8 == 0) {
      NCCL_OK(buffers->Register(comm_)) << test.ToString();
    }
    NCCL_OK(buffers->Issue(comm_, stream)) << test.ToString();
  }

  void Group(int size) {
    const CudaStream stream = OwnStream();
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < size; ++i) Issue(NextCase(), stream);
    NCCL_OK(ncclGroupEnd());
  }

  // Captured once, run three times; in place a second run would reduce what the first has left.
  void Graph(int size) {
    BeginCapture(streams_[0]);
    for (int i = 0; i < size; ++i) {
      NcclCase test = NextCase();
      test.in_place = false;
      test.count %= 1 << 16;
      Issue(test, streams_[0]);
    }
    CudaGraphExec graph = EndCapture(streams_[0]);
    const bool eager_between = common_() % 2 != 0;
    const NcclCase between = NextCase();
    for (int run = 0; run < 3; ++run) {
      Launch(graph, streams_[0]);
      if (eager_between && run == 1) Issue(between, streams_[1]);
    }
    Settle();
    DestroyGraph(graph);
  }

  // Everybody sends to everybody, the own rank included, what the pair drew.
  void Messages() {
    const auto size = static_cast<size_t>(size_);
    const auto mine = static_cast<size_t>(team_.rank());
    std::vector<std::vector<uint32_t>> counts(size, std::vector<uint32_t>(size));
    for (auto& row : counts) {
      for (uint32_t& count : row) count = common_() % 3 == 0 ? 0 : common_() % (uint32_t{1} << (common_() % 19));
    }
    std::vector<void*> sent(size), received(size);
    for (size_t peer = 0; peer < size; ++peer) {
      std::vector<uint32_t> values(counts[mine][peer]);
      for (uint32_t i = 0; i < values.size(); ++i) values[i] = Value(mine, peer, i);
      sent[peer] = Allocate(values.size() * 4 + 4);
      received[peer] = Allocate(counts[peer][mine] * size_t{4} + 4);
      if (!values.empty()) ToDevice(sent[peer], values.data(), values.size() * 4);
    }
    NCCL_OK(ncclGroupStart());
    for (size_t step = 0; step < size; ++step) {
      const size_t peer = (mine + step) % size;  // another order on every rank
      const auto stream = reinterpret_cast<cudaStream_t>(streams_[0]);
      NCCL_OK(ncclSend(sent[peer], counts[mine][peer], ncclUint32, static_cast<int>(peer), comm_, stream));
      NCCL_OK(ncclRecv(received[peer], counts[peer][mine], ncclUint32, static_cast<int>(peer), comm_, stream));
    }
    NCCL_OK(ncclGroupEnd());
    ASSERT_TRUE(WaitFor(streams_[0], kPatience)) << "messages hang";
    for (size_t peer = 0; peer < size; ++peer) {
      std::vector<uint32_t> values(counts[peer][mine]);
      if (!values.empty()) FromDevice(values.data(), received[peer], values.size() * 4);
      for (uint32_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], Value(peer, mine, i)) << i << " from rank " << peer << " of " << values.size();
      }
      Free(sent[peer]);
      Free(received[peer]);
    }
  }

  static uint32_t Value(size_t from, size_t to, uint32_t index) {
    return index * 2654435761u + static_cast<uint32_t>(from * 16 + to);
  }

  void Settle() {
    for (CudaStream stream : {CudaStream{nullptr}, streams_[0], streams_[1]}) {
      ASSERT_TRUE(WaitFor(stream, kPatience)) << "operations hang";
    }
    for (const auto& one : pending_) EXPECT_EQ(one->Check(), "");
    pending_.clear();
  }

  Team& team_;
  const int size_;
  std::mt19937 common_;
  std::mt19937 own_;
  bool default_stream_ = false;
  const uint32_t largest_ = static_cast<uint32_t>(FromEnvironment("SL_GPU_LARGEST", 22));
  ncclComm_t comm_ = nullptr;
  CudaStream streams_[2];
  std::vector<std::unique_ptr<GpuBuffers>> pending_;
};

TEST_F(Gpu, ComputesEveryCollectiveOnEveryType) {
  RunGpuRanks(Ranks(), [](GpuRank& me) {
    for (uint32_t kind = 0; kind < static_cast<uint32_t>(Kind::kCount); ++kind) {
      for (int type = 0; type < ncclNumTypes; ++type) {
        NcclCase test;
        test.kind = static_cast<Kind>(kind);
        test.type = static_cast<ncclDataType_t>(type);
        for (int reduction : {0, 1, 2, 3, 4, kPremulSum}) {
          if (!test.reduces() && reduction != 0) continue;
          test.reduction = reduction;
          for (const size_t count : {1, 7, 1000, 40001}) {
            test.count = count;
            GpuBuffers buffers(test, me.team.rank(), me.team.size(), count % 3);
            NCCL_OK(buffers.Issue(me.comm, me.stream)) << test.ToString();
            ASSERT_TRUE(WaitFor(me.stream, kPatience)) << test.ToString() << " hangs";
            ASSERT_EQ(buffers.Check(), "");
          }
        }
      }
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_F(Gpu, EndsRandomCallsRightOnProcesses) {
  integration::RunProcesses(
      Ranks(), [](Team& team) { Soak(team, Seed(1), false).Run(Calls()); }, Patient());
}

// A spinning kernel ends, the communicator and the GPU stay of use.
TEST_F(Gpu, AbortsWhatWaitsForARankThatNeverCalls) {
  RunGpuRanks(2, [](GpuRank& me) {
    for (const size_t count : {size_t{4}, size_t{1} << 20}) {
      NcclCase test;
      test.count = count;
      if (me.team.rank() == 0) {
        GpuBuffers buffers(test, 0, 2, 0);
        NCCL_OK(buffers.Issue(me.comm, me.stream));
        ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
        const double begin = integration::Seconds();
        NCCL_OK(ncclCommAbort(me.comm));
        EXPECT_LT(integration::Seconds() - begin, 1.5) << "abort is bounded";
        ASSERT_TRUE(WaitFor(me.stream, 1)) << "the kernel spins on";
      }
      me.team.Barrier();
      if (me.team.rank() == 1) {
        NCCL_OK(ncclCommAbort(me.comm));
      }
      me.comm = me.team.MakeComm();
      ExpectRight(test, me.team.rank(), 2, me.comm, me.stream);
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// Ranks abort at moments of their own while operations of all sizes are queued and run, some of which one rank never
// calls. Whatever they meet ends, and leaves the GPU of use.
TEST_F(GpuLaunches, AbortsInAnyPhase) {
  integration::RunProcesses(
      Ranks(),
      [](Team& team) {
        UseMyGpu(team.rank());
        const CudaStream stream = MakeStream();
        std::mt19937 common(Seed(3));
        std::mt19937 own(Seed(3) + static_cast<uint32_t>(team.rank()));
        const auto draw = [&] {
          NcclCase test;
          test.kind = static_cast<Kind>(common() % static_cast<uint32_t>(Kind::kCount));
          test.count = common() % (1u << common() % 19);
          return test;
        };
        for (int round = 0; round < Aborts(); ++round) {
          ncclComm_t comm = team.MakeComm();
          constexpr size_t kCalls = 20;
          std::vector<std::unique_ptr<GpuBuffers>> buffers;
          buffers.reserve(kCalls);
          while (buffers.size() < kCalls) {
            buffers.push_back(std::make_unique<GpuBuffers>(draw(), team.rank(), team.size(), 0));
          }
          const auto lazy = static_cast<int>(common() % static_cast<uint32_t>(team.size()));
          const size_t short_of = common() % buffers.size();
          const size_t calls = team.rank() == lazy ? short_of : buffers.size();
          // Refused once a peer's abort is known.
          for (size_t i = 0; i < calls && buffers[i]->Issue(comm, stream) == ncclSuccess; ++i) continue;
          const double moment = integration::Seconds() + own() % 2000 * 1e-6;
          while (integration::Seconds() < moment) std::this_thread::yield();
          const double begin = integration::Seconds();
          NCCL_OK(ncclCommAbort(comm));
          EXPECT_LT(integration::Seconds() - begin, 1.5) << "abort is bounded";
          ASSERT_TRUE(WaitFor(stream, 1)) << "kernels spin on in round " << round;
          team.Barrier();  // peers may have been loading from the buffers
        }
        ncclComm_t comm = team.MakeComm();
        GpuBuffers buffers(draw(), team.rank(), team.size(), 0);
        NCCL_OK(buffers.Issue(comm, stream));
        ASSERT_TRUE(WaitFor(stream, kPatience));
        EXPECT_EQ(buffers.Check(), "");
        NCCL_OK(ncclCommDestroy(comm));
      },
      Patient());
}

TEST_F(GpuLaunches, RevokesWhatWaitsAndGoesOnWithASplit) {
  RunGpuRanks(2, [](GpuRank& me) {
    NcclCase test;
    test.count = 1 << 20;
    GpuBuffers waiting(test, me.team.rank(), 2, 0);
    if (me.team.rank() == 0) {
      NCCL_OK(waiting.Issue(me.comm, me.stream));
    }
    const double begin = integration::Seconds();
    NCCL_OK(ncclCommRevoke(me.comm, NCCL_REVOKE_DEFAULT));
    EXPECT_LT(integration::Seconds() - begin, 1.5) << "revoking is bounded";
    ASSERT_TRUE(WaitFor(me.stream, 1)) << "the kernel spins on";
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(me.comm, 0, 0, &child, nullptr));
    ExpectRight(test, me.team.rank(), 2, child, me.stream);
    NCCL_OK(ncclCommDestroy(child));
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// Nobody asks: the time limit alone ends the kernel, and names the rank that has not called.
TEST_F(GpuLaunches, EndsALaunchThatWaitsTooLong) {
  const integration::Environment limit("STARLING_COMM_OPERATION_TIMEOUT_MS", "1000");
  RunGpuRanks(2, [](GpuRank& me) {
    NcclCase test;
    test.count = 1000;
    if (me.team.rank() == 0) {
      GpuBuffers buffers(test, 0, 2, 0);
      NCCL_OK(buffers.Issue(me.comm, me.stream));
      ASSERT_TRUE(WaitFor(me.stream, 10)) << "it waits for ever";
      ncclResult_t state = ncclSuccess;
      ASSERT_TRUE(integration::WaitUntil(
          5, [&] { return ncclCommGetAsyncError(me.comm, &state) == ncclSuccess && state != ncclSuccess; }));
      const std::string text = ncclGetLastError(me.comm);
      EXPECT_NE(text.find("timeout after 1000 ms: a launch waits for rank 1"), std::string::npos) << text;
      EXPECT_NE(text.find("has not called #1"), std::string::npos) << text;
    }
    me.team.Barrier();
    NCCL_OK(ncclCommAbort(me.comm));
  });
}

// Nothing waits for the call that differs: who asks compares, as a watchdog does for every call.
TEST_F(GpuLaunches, TellsWhoAsksOfCallsThatDiffer) {
  RunGpuRanks(2, [](GpuRank& me) {
    constexpr int kAlike = 70;  // more than are on record
    NcclCase test;
    test.count = 1000;
    ncclResult_t state = ncclSuccess;
    for (int call = 0; call <= kAlike; ++call) {
      if (call == kAlike && me.team.rank() == 1) test.reduction = ncclMax;
      GpuBuffers buffers(test, me.team.rank(), 2, 0);
      NCCL_OK(buffers.Issue(me.comm, me.stream));
      ASSERT_TRUE(WaitFor(me.stream, kPatience)) << "call " << call << " hangs";
      if (call == kAlike) break;
      NCCL_OK(ncclCommGetAsyncError(me.comm, &state));
      ASSERT_EQ(state, ncclSuccess) << "call " << call << ": " << ncclGetLastError(me.comm);
    }
    ASSERT_TRUE(integration::WaitUntil(5, [&] {
      return ncclCommGetAsyncError(me.comm, &state) == ncclSuccess && state != ncclSuccess;
    })) << "nobody hears that the calls differ";
    // The one who asks first finds it, the other one may hear of that.
    EXPECT_TRUE(state == ncclInvalidUsage || state == ncclRemoteError) << state;
    const std::string text = ncclGetLastError(me.comm);
    for (const char* words : {"#71", "float32, sum", "float32, max", "rank 1"})
      EXPECT_NE(text.find(words), std::string::npos) << words << " is not in: " << text;
    me.team.Barrier();
    NCCL_OK(ncclCommAbort(me.comm));
  });
}

// Each rank uses its two streams in an order of its own.
TEST_F(GpuLaunches, ServesTwoCommunicatorsInOppositeOrders) {
  integration::RunProcesses(
      2,
      [](Team& team) {
        UseMyGpu(team.rank());
        ncclComm_t comms[] = {team.MakeComm(), team.MakeComm()};
        const CudaStream streams[] = {MakeStream(), MakeStream()};
        for (int round = 0; round < 50; ++round) {
          NcclCase test;
          test.count = size_t{1} << (round % 20);
          test.salt = static_cast<uint32_t>(round);
          std::unique_ptr<GpuBuffers> buffers[2];
          for (auto& one : buffers) one = std::make_unique<GpuBuffers>(test, team.rank(), 2, 0);
          for (int i = 0; i < 2; ++i) {
            const int turn = (i + team.rank()) % 2;
            NCCL_OK(buffers[turn]->Issue(comms[turn], streams[turn]));
          }
          for (int i = 0; i < 2; ++i) {
            ASSERT_TRUE(WaitFor(streams[i], kPatience)) << "round " << round << " hangs";
            ASSERT_EQ(buffers[i]->Check(), "");
          }
        }
        for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
      },
      Patient());
}

// The first call waits for rank 1, and the second comes on another stream of the same handle, which waits for the
// first.
TEST_F(Gpu, OrdersCallsOnStreamsOfOneHandle) {
  enum { kDestroyed, kOfThreads };
  RunGpuRanks(2, [](GpuRank& me) {
    for (int round = 0; round < 6; ++round) {
      NcclCase test;
      test.count = size_t{1} << round;
      test.salt = static_cast<uint32_t>(round);
      GpuBuffers first(test, me.team.rank(), 2, 0);
      GpuBuffers second(test, me.team.rank(), 2, 0);
      if (me.team.rank() == 1) me.team.Barrier();
      const bool of_threads = round % 2 == kOfThreads;
      const auto per_thread = reinterpret_cast<CudaStream>(2);
      std::thread([&] {
        UseMyGpu(me.team.rank());
        const CudaStream stream = of_threads ? per_thread : MakeStream();
        NCCL_OK(first.Issue(me.comm, stream));
        if (!of_threads) DestroyStream(stream);
      }).join();
      const CudaStream stream = of_threads ? per_thread : MakeStream();
      NCCL_OK(second.Issue(me.comm, stream));
      if (me.team.rank() == 0) me.team.Barrier();
      ASSERT_TRUE(WaitFor(stream, kPatience)) << "round " << round << " hangs";
      EXPECT_EQ(first.Check(), "");
      EXPECT_EQ(second.Check(), "");
      if (!of_threads) DestroyStream(stream);
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

// Segments of host memory that this process shares with others.
int SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:starling") != std::string::npos ? 1 : 0;
  return found;
}

// The graph is launched after its communicator was destroyed, and computes.
TEST_F(GpuLaunches, KeepsTheMemoryOfACommunicatorForItsGraphs) {
  RunGpuRanks(2, [](GpuRank& me) {
    NcclCase test;
    test.count = 1000;
    GpuBuffers buffers(test, me.team.rank(), 2, 0);
    BeginCapture(me.stream);
    NCCL_OK(buffers.Issue(me.comm, me.stream));
    CudaGraphExec graph = EndCapture(me.stream);
    EXPECT_EQ(ncclCommSuspend(me.comm, NCCL_SUSPEND_MEM), ncclInvalidUsage);
    NCCL_OK(ncclCommDestroy(me.comm));
    me.team.Barrier();
    Launch(graph, me.stream);
    ASSERT_TRUE(WaitFor(me.stream, kPatience));
    EXPECT_EQ(buffers.Check(), "");
    me.team.Barrier();
    const size_t before = FreeMemory();
    const int mapped = SharedMappings();
    DestroyGraph(graph);
    const bool is_apart = FromEnvironment("SL_GPU_APART", 0) != 0;  // then it held memory of the host
    const auto is_freed = [&] { return is_apart ? SharedMappings() < mapped : FreeMemory() > before; };
    EXPECT_TRUE(integration::WaitUntil(10, is_freed)) << "its memory was not freed";
    me.team.Barrier();
  });
}

TEST_F(GpuLaunches, FreesMemoryWhileSuspended) {
  RunGpuRanks(2, [](GpuRank& me) {
    for (int round = 0; round < 3; ++round) {
      NcclCase test;
      test.count = 100000;
      GpuBuffers buffers(test, me.team.rank(), 2, 0);
      me.team.Barrier();
      const size_t before = FreeMemory();
      me.team.Barrier();
      NCCL_OK(ncclCommSuspend(me.comm, NCCL_SUSPEND_MEM));
      uint64_t bytes = 0;
      NCCL_OK(ncclCommMemStats(me.comm, ncclStatGpuMemSuspend, &bytes));
      EXPECT_GE(FreeMemory(), before + bytes);
      me.team.Barrier();
      NCCL_OK(ncclCommResume(me.comm));
      NCCL_OK(buffers.Issue(me.comm, me.stream));
      ASSERT_TRUE(WaitFor(me.stream, kPatience));
      EXPECT_EQ(buffers.Check(), "");
    }
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

int OpenDescriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return static_cast<int>(std::distance(begin(folder), end(folder)));
}

double ResidentMib() {
  long pages = 0;
  std::ifstream("/proc/self/statm").ignore(64, ' ') >> pages;
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

TEST_F(GpuLaunches, LeavesNothingOfManyCommunicators) {
  TeamOptions options = Patient();
  options.seconds += Comms();
  integration::RunProcesses(
      2,
      [](Team& team) {
        UseMyGpu(team.rank());
        const CudaStream stream = MakeStream();
        NcclCase test;
        test.count = 1000;
        size_t free_before = 0;
        int descriptors_before = 0;
        uint64_t loads_before = 0;
        for (int made = 0; made <= Comms(); ++made) {
          ncclComm_t comm = team.MakeComm();
          {
            GpuBuffers buffers(test, team.rank(), 2, 0);
            NCCL_OK(buffers.Issue(comm, stream));
            ASSERT_TRUE(WaitFor(stream, kPatience));
            ASSERT_EQ(buffers.Check(), "");
          }
          NCCL_OK(ncclCommDestroy(comm));
          team.Barrier();
          const bool is_settled = made == Comms() / 10;  // what the process makes once is there
          if (is_settled) {
            free_before = FreeMemory();
            descriptors_before = OpenDescriptors();
            loads_before = CallsOf("cuModuleLoadData");
          }
          if (!is_settled && made != Comms()) continue;
          std::printf(
              "rank %d after %d communicators: %d descriptors, %.1f MiB of host memory, %.1f MiB of the GPU free\n",
              team.rank(), made, OpenDescriptors(), ResidentMib(), static_cast<double>(FreeMemory()) / (1 << 20));
        }
        EXPECT_LE(OpenDescriptors(), descriptors_before + 4);
        EXPECT_EQ(CallsOf("cuModuleLoadData"), loads_before) << "drivers keep some memory of every load";
        EXPECT_GE(FreeMemory() + (size_t{4} << 20), free_before) << "device memory is lost";
      },
      options);
}

TEST_F(Gpu, NamesARankThatDiesAndGoesOnWithoutIt) {
  TeamOptions options = Patient();
  options.may_die = 1u << 1;
  integration::RunProcesses(
      3,
      [](Team& team) {
        UseMyGpu(team.rank());
        ncclComm_t comm = team.MakeComm();
        if (team.rank() == 1) kill(getpid(), SIGKILL);
        const CudaStream stream = MakeStream();
        NcclCase test;
        test.count = 100000;
        {
          GpuBuffers buffers(test, team.rank(), 3, 0);
          const ncclResult_t issued = buffers.Issue(comm, stream);
          if (issued == ncclSuccess) {
            ASSERT_TRUE(WaitFor(stream, 5)) << "it waits for a dead rank";
          }
        }
        ncclResult_t state = ncclSuccess;
        ASSERT_TRUE(integration::WaitUntil(
            5, [&] { return ncclCommGetAsyncError(comm, &state) != ncclSuccess || state != ncclSuccess; }));
        EXPECT_NE(std::string(ncclGetLastError(comm)).find("rank 1"), std::string::npos) << ncclGetLastError(comm);
        const int dead = 1;
        ncclComm_t survivors = nullptr;
        NCCL_OK(ncclCommShrink(comm, const_cast<int*>(&dead), 1, &survivors, nullptr, NCCL_SHRINK_ABORT));
        int rank = -1;
        NCCL_OK(ncclCommUserRank(survivors, &rank));
        ExpectRight(test, rank, 2, survivors, stream);
        NCCL_OK(ncclCommAbort(comm));
        NCCL_OK(ncclCommDestroy(survivors));
      },
      options);
}

TEST_F(Gpu, EndsRandomCallsRightOnThreads) {
  integration::RunThreads(
      Ranks(), [](Team& team) { Soak(team, Seed(2), true).Run(Calls()); }, Patient());
}

void ServeFromOneThread(int size) {
  ASSERT_EQ(OpenCuda(), "");
  std::vector<int> devices(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) devices[static_cast<size_t>(rank)] = rank % DeviceCount();
  std::vector<ncclComm_t> comms(static_cast<size_t>(size));
  UseDevice(0);
  NCCL_OK(ncclCommInitAll(comms.data(), size, devices.data()));
  for (const size_t count : {size_t{5}, size_t{70001}, size_t{3} << 20}) {
    NcclCase test;
    test.count = count;
    std::vector<std::unique_ptr<GpuBuffers>> buffers;
    std::vector<CudaStream> streams;
    for (int rank = 0; rank < size; ++rank) {
      UseDevice(devices[static_cast<size_t>(rank)]);
      buffers.push_back(std::make_unique<GpuBuffers>(test, rank, size, 0));
      streams.push_back(MakeStream());
    }
    NCCL_OK(ncclGroupStart());
    for (size_t rank = 0; rank < comms.size(); ++rank) NCCL_OK(buffers[rank]->Issue(comms[rank], streams[rank]));
    NCCL_OK(ncclGroupEnd());
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      UseDevice(devices[rank]);
      ASSERT_TRUE(WaitFor(streams[rank], kPatience)) << "rank " << rank << " hangs";
      EXPECT_EQ(buffers[rank]->Check(), "");
      EXPECT_EQ(buffers[rank]->Hash(), buffers[0]->Hash()) << "other bits on rank " << rank;
      DestroyStream(streams[rank]);
    }
  }
  for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
}

TEST_F(Gpu, ServesAllRanksFromOneThread) {
  const integration::Environment several("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  const int size = Ranks();
  integration::RunProcesses(
      1, [size](Team&) { ServeFromOneThread(size); }, Patient());
}

}  // namespace
}  // namespace sl::gpu

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::map<std::string, const char*> known = {{"--ranks", "SL_GPU_RANKS"},
                                                    {"--calls", "SL_GPU_CALLS"},
                                                    {"--seed", "SL_GPU_SEED"},
                                                    {"--comms", "SL_GPU_COMMS"},
                                                    {"--aborts", "SL_GPU_ABORTS"}};
  for (int i = 1; i < argc; i += 2) {
    const auto found = known.find(argv[i]);
    if (found == known.end() || i + 1 == argc) {
      std::fprintf(stderr, "%s: %s is none of --ranks, --calls, --seed, --comms and --aborts with a number\n", argv[0],
                   argv[i]);
      return 2;
    }
    setenv(found->second, argv[i + 1], 1);
  }
  return RUN_ALL_TESTS();
}

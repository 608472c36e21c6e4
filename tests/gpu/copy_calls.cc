// SPDX-License-Identifier: Apache-2.0
//
// The NCCL API on GPUs, collectives by copy engines: symmetric windows, eager and in graphs, on processes and threads.
// Part of gpu.calls_test.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/gpu/gpu_rank.h"
#include "tests/integration/copy_case.h"

namespace sl::gpu {
namespace {

using integration::CopyCase;
using integration::Team;

constexpr size_t kLong = size_t{3} << 20;  // ints of a block

// A rank whose communicator wants no SMs held, and a window on its GPU, halved: what it sends, what it receives.
class CopyRank {
 public:
  explicit CopyRank(Team& team) : team_(team), half_(kLong * static_cast<size_t>(team.size())) {
    UseMyGpu(team.rank());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    const ncclUniqueId id = team.MakeId();
    EXPECT_EQ(ncclCommInitRankConfig(&comm_, team.size(), id, team.rank(), &config), ncclSuccess)
        << ncclGetLastError(nullptr);
    void* memory = nullptr;
    EXPECT_EQ(ncclMemAlloc(&memory, 2 * half_ * sizeof(int)), ncclSuccess) << ncclGetLastError(nullptr);
    send_ = static_cast<int*>(memory);
    EXPECT_EQ(ncclCommWindowRegister(comm_, memory, 2 * half_ * sizeof(int), &window_, NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess)
        << ncclGetLastError(nullptr);
    stream_ = MakeStream();
  }
  void End() {
    NCCL_OK(ncclCommWindowDeregister(comm_, window_));
    NCCL_OK(ncclCommDestroy(comm_));
    NCCL_OK(ncclMemFree(send_));
    DestroyStream(stream_);
  }

  void Issue(const CopyCase& test) const {
    NCCL_OK(test.Issue(SendIn(test), Recv(), team_.rank(), comm_, reinterpret_cast<cudaStream_t>(stream_)))
        << test.ToString();
  }
  // Other values than before, on all ranks; `run` issues.
  template <typename Run>
  void Round(const CopyCase& test, Run run) {
    ++salt_;
    const std::vector<int> spoilt(test.count * static_cast<size_t>(team_.size()), -1);
    ToDevice(Recv(), spoilt.data(), spoilt.size() * sizeof(int));
    const std::vector<int> sent = test.Sent(team_.rank(), team_.size(), salt_);
    if (!sent.empty()) ToDevice(SendIn(test), sent.data(), sent.size() * sizeof(int));
    team_.Barrier();
    run();
    ASSERT_TRUE(WaitFor(stream_, kPatience)) << test.ToString() << " hangs";
    const std::vector<int> wanted = test.Wanted(team_.rank(), team_.size(), salt_);
    std::vector<int> got(wanted.size());
    if (!got.empty()) FromDevice(got.data(), Recv(), got.size() * sizeof(int));
    EXPECT_TRUE(got == wanted) << test.ToString() << ", rank " << team_.rank();
    team_.Barrier();
  }
  CudaStream stream() const { return stream_; }

 private:
  int* Recv() const { return send_ + half_; }
  int* SendIn(const CopyCase& test) const { return test.SendIn(send_, Recv(), team_.rank()); }

  Team& team_;
  const size_t half_;
  ncclComm_t comm_ = nullptr;
  ncclWindow_t window_ = nullptr;
  int* send_ = nullptr;
  CudaStream stream_ = nullptr;
  int salt_ = 0;
};

void RunAll(Team& team) {
  CopyRank me(team);
  for (const CopyCase& test : integration::ManyCopyCases(team.size(), kLong)) {
    const auto issue = [&] { me.Issue(test); };
    me.Round(test, issue);
    me.Round(test, issue);
    BeginCapture(me.stream());
    issue();
    CudaGraphExec graph = EndCapture(me.stream());
    for (int replay = 0; replay < 3; ++replay) {
      me.Round(test, [&] { Launch(graph, me.stream()); });
      me.Round(test, issue);
    }
    me.Round(test, [&] {
      for (int i = 0; i < 10; ++i) {
        Launch(graph, me.stream());
        issue();
      }
    });
    DestroyGraph(graph);
    if (testing::Test::HasFailure()) break;
  }
  me.End();
}

// A profile without kernels: what copies do not serve is refused.
class GpuCopies : public GpuReach {
 protected:
  GpuCopies() {
    std::ofstream(path_) << "profile_version = 1\n[roles]\ndevice = \"cuda\"\n[modules.algo-symmetric]\n"
                            "enabled = false\n";
  }
  ~GpuCopies() override { unlink(path_.c_str()); }

  const std::string path_ = testing::TempDir() + "copies-" + std::to_string(getpid()) + ".toml";
};

TEST_F(GpuCopies, AreRightEagerAndInGraphsOnProcesses) {
  const integration::Environment profile("STARLING_PROFILE", path_.c_str());
  for (int ranks = 2; ranks <= Ranks(); ++ranks) integration::RunProcesses(ranks, RunAll, Patient());
}

TEST_F(GpuCopies, AreRightEagerAndInGraphsOnThreads) {
  const integration::Environment profile("STARLING_PROFILE", path_.c_str());
  integration::RunThreads(Ranks(), RunAll, Patient());
}

TEST_F(GpuCopies, AreRightBesideKernels) { integration::RunProcesses(Ranks(), RunAll, Patient()); }

TEST_F(GpuCopies, AbortEndsWhatWaitsForARankThatNeverCalls) {
  const integration::Environment profile("STARLING_PROFILE", path_.c_str());
  RunGpuRanks(2, [](GpuRank& me) {
    constexpr size_t kCount = 1 << 20;
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 4 * kCount * sizeof(int)));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(me.comm, memory, 4 * kCount * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
    if (me.team.rank() == 0) {
      auto* values = static_cast<int*>(memory);
      for (int i = 0; i < 20; ++i) {
        NCCL_OK(ncclAllGather(values, values + 2 * kCount, kCount, ncclInt32, me.comm,
                              reinterpret_cast<cudaStream_t>(me.stream)));
      }
      ASSERT_FALSE(WaitFor(me.stream, 0.2)) << "it waits for nobody";
      const double begin = integration::Seconds();
      NCCL_OK(ncclCommAbort(me.comm));
      EXPECT_LT(integration::Seconds() - begin, 1.5) << "abort is bounded";
      ASSERT_TRUE(WaitFor(me.stream, 1)) << "the stream waits on";
    }
    me.team.Barrier();
    if (me.team.rank() == 1) {
      NCCL_OK(ncclCommAbort(me.comm));
    }
    NCCL_OK(ncclMemFree(memory));
  });
}

}  // namespace
}  // namespace sl::gpu

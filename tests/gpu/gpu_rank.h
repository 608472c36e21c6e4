// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the NCCL API on GPUs share: how many GPUs and ranks there are, a rank on its GPU, one operation
// against the oracle. Ranks share GPUs where there are more of them.
#pragma once

#include <functional>
#include <string>

#include "tests/gpu/gpu_buffers.h"
#include "tests/integration/team.h"

namespace sl::gpu {

constexpr double kPatience = 60;

int FromEnvironment(const char* name, int otherwise);
// Asked in a child, since a process that has used CUDA cannot fork ranks that use it.
int CountGpus();
int Ranks();
int Calls();
int Comms();
integration::TeamOptions Patient();

// The calling thread's from now on.
void UseMyGpu(int rank);

// A rank on its GPU, with a communicator of all ranks and a stream.
struct GpuRank {
  explicit GpuRank(integration::Team& the_team) : team(the_team) {
    UseMyGpu(team.rank());
    comm = team.MakeComm();
    stream = MakeStream();
  }

  integration::Team& team;
  ncclComm_t comm = nullptr;
  CudaStream stream = nullptr;
};
void RunGpuRanks(int ranks, const std::function<void(GpuRank&)>& body,
                 const integration::TeamOptions& options = Patient());

// While it lives, processes that start have a profile whose rule pins an algorithm.
class Pinned {
 public:
  explicit Pinned(const std::string& algorithm);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  const std::string path_;
};

// One operation, its end and its result; `rank` and `size` are those in `comm`.
void ExpectRight(const integration::NcclCase& test, int rank, int size, ncclComm_t comm, CudaStream stream);

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(CountGpus() != 0 || FromEnvironment("SL_GPU_NEEDED", 0) == 0) << "there is no GPU, but one is needed";
    if (CountGpus() == 0) GTEST_SKIP() << "no GPU on this machine";
  }
};

// What is of operations that kernels serve.
class GpuLaunches : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (FromEnvironment("SL_GPU_RELAYED", 0) != 0) GTEST_SKIP() << "plans carry operations through the host";
  }
};

// What is of GPUs that reach each other's memory.
class GpuReach : public GpuLaunches {
 protected:
  void SetUp() override {
    GpuLaunches::SetUp();
    if (FromEnvironment("SL_GPU_APART", 0) != 0) GTEST_SKIP() << "GPUs do not reach each other's memory";
  }
};

}  // namespace sl::gpu

// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu_rank.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace sl::gpu {

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

int CountGpus() {
  static const int kCount = [] {
    const pid_t child = fork();
    if (child == 0) _exit(OpenCuda().empty() ? DeviceCount() : 0);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  }();
  return kCount;
}

Pinned::Pinned(const std::string& algorithm)
    : path_(testing::TempDir() + "pinned-" + std::to_string(getpid()) + ".toml") {
  std::ofstream(path_) << "profile_version = 1\n[[select]]\nalgorithm = \"" << algorithm << "\"\n";
  setenv("STARLING_PROFILE", path_.c_str(), 1);
}

Pinned::~Pinned() {
  unsetenv("STARLING_PROFILE");
  unlink(path_.c_str());
}

int Ranks() { return FromEnvironment("SL_GPU_RANKS", std::max(2, CountGpus())); }
int Calls() { return FromEnvironment("SL_GPU_CALLS", 400); }
int Comms() { return FromEnvironment("SL_GPU_COMMS", 20); }

integration::TeamOptions Patient() {
  integration::TeamOptions options;
  options.seconds = 240 + Calls() / 10;
  return options;
}

void UseMyGpu(int rank) {
  ASSERT_EQ(OpenCuda(), "");
  UseDevice(rank % DeviceCount());
}

void RunGpuRanks(int ranks, const std::function<void(GpuRank&)>& body, const integration::TeamOptions& options) {
  const auto run = [&body](integration::Team& team) {
    GpuRank rank(team);
    if (!testing::Test::HasFatalFailure()) body(rank);
  };
  integration::RunProcesses(ranks, run, options);
}

void ExpectRight(const integration::NcclCase& test, int rank, int size, ncclComm_t comm, CudaStream stream) {
  GpuBuffers buffers(test, rank, size, 0);
  NCCL_OK(buffers.Issue(comm, stream)) << test.ToString();
  ASSERT_TRUE(WaitFor(stream, kPatience)) << test.ToString() << " hangs";
  EXPECT_EQ(buffers.Check(), "");
}

}  // namespace sl::gpu

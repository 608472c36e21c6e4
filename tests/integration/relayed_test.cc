// SPDX-License-Identifier: Apache-2.0
//
// Operations that pass host memory (kernel/runtime/relay.h), over the fake CUDA driver: what a replay knows of those
// before it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

ncclResult_t Add(ncclComm_t comm, int* values, size_t count) {
  return ncclAllReduce(values, values, count, ncclInt32, ncclSum, comm, nullptr);
}

class Relayed : public Unwatched {
 protected:
  const Environment apart_{"STARLING_COMM_DIRECT_RANKS", "1"};
  const Environment by_plans_{"STARLING_COMM_HOST_HEAP", "false"};
};

// What this process writes to its standard error from now on.
class Said {
 public:
  Said() : path_(testing::TempDir() + "relayed-" + std::to_string(getpid()) + ".log") {
    const int fd = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
  }
  ~Said() { unlink(path_.c_str()); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;

  int Count(const std::string& words) const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    const std::string text = all.str();
    int count = 0;
    for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++count;
    return count;
  }

 private:
  const std::string path_;
};

// Each wait of its own is reported, as that of an operation that is called.
TEST_F(Relayed, EveryReplayThatWaitsLongIsReported) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const Said said;
    const ncclComm_t comm = team.MakeComm();
    int value = 1;
    gpu.BeginCapture();
    NCCL_OK(Add(comm, &value, 1));
    void* graph = gpu.EndCapture();
    for (int replay = 1; replay <= 3; ++replay) {
      const auto is_told = [&] { return said.Count("has not launched its graph") == replay; };
      if (team.rank() == 0) {
        gpu.Launch(graph);
        EXPECT_TRUE(WaitUntil(15, [&] { return !gpu.IsIdle() && is_told(); })) << "replay " << replay;
      }
      team.Barrier();
      if (team.rank() == 1) gpu.Launch(graph);
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(value, 1 << replay);
    }
    gpu.DestroyGraph(graph);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

}  // namespace
}  // namespace sl::integration

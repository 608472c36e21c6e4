// SPDX-License-Identifier: Apache-2.0
//
// Operations that pass host memory (kernel/runtime/relay.h), over the fake CUDA driver: what becomes of captures and
// calls that fail half-way, and what a replay is told of that one before it was.
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

// Its device got a part of it: no replay of that graph ends by itself, so none waits.
TEST_F(Relayed, CaptureThatFailedHalfWayTakesNoMoreAndItsReplaysEnd) {
  for (const uint64_t others : {0, 1}) {
    RunProcesses(2, [others](Team& team) {
      const FakeGpu gpu;
      const ncclComm_t comm = team.MakeComm();
      int value = 1;
      gpu.BeginCapture();
      if (team.rank() == 0) gpu.FailLater("cuStreamWriteValue64", others);
      EXPECT_EQ(Add(comm, &value, 1), team.rank() == 0 ? ncclUnhandledCudaError : ncclSuccess);
      const ncclResult_t next = Add(comm, &value, 1);
      if (team.rank() == 0) {
        EXPECT_NE(next, ncclSuccess);
        EXPECT_TRUE(LastErrorHas("a call of this capture has failed before"));
      }
      void* graph = gpu.EndCapture();
      if (team.rank() == 0) {
        for (int replay = 0; replay < 2; ++replay) {
          gpu.Launch(graph);
          EXPECT_TRUE(gpu.Synchronize(5)) << "it waits for what never comes";
        }
        EXPECT_EQ(AsyncError(comm), ncclSuccess) << "nothing has happened but what the call said";
        // Another capture works, and so does what is captured by none.
      }
      gpu.DestroyGraph(graph);
      team.Barrier();
      value = 1;
      NCCL_OK(Add(comm, &value, 1));
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(value, 2);
      NCCL_OK(ncclCommDestroy(comm));
    });
  }
}

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
//
// A program may end a communicator on one thread while others are inside calls on it: watchdogs do. Every call is then
// answered or refused, and none finds what it works on freed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"

namespace {

constexpr int kRounds = 100;
constexpr size_t kBytes = 8192;

// A call of a program, whatever comes of it.
struct Beside {
  const char* name;
  void (*call)(ncclComm_t comm, void* memory);
};

void Reduce(ncclComm_t comm, void* memory) {
  const auto value = static_cast<int32_t*>(memory);
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) ncclAllReduce(value + i, value + i, 1, ncclInt32, ncclSum, comm, nullptr);
  ncclGroupEnd();
}

const Beside kCalls[] = {
    {"AsyncError",
     [](ncclComm_t comm, void*) {
       ncclResult_t state;
       ncclCommGetAsyncError(comm, &state);
     }},
    {"LastError", [](ncclComm_t comm, void*) { ncclGetLastError(comm); }},
    {"MemStats",
     [](ncclComm_t comm, void*) {
       uint64_t bytes;
       ncclCommMemStats(comm, ncclStatGpuMemTotal, &bytes);
     }},
    {"Register",
     [](ncclComm_t comm, void* memory) {
       void* handle = nullptr;
       if (ncclCommRegister(comm, memory, kBytes, &handle) == ncclSuccess) ncclCommDeregister(comm, handle);
     }},
    {"Operator",
     [](ncclComm_t comm, void*) {
       float half = 0.5f;
       ncclRedOp_t op;
       if (ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm) != ncclSuccess) return;
       ncclRedOpDestroy(op, comm);
     }},
    {"Window",
     [](ncclComm_t comm, void* memory) {
       ncclWindow_t window = nullptr;
       void* seen = nullptr;
       if (ncclCommWindowRegister(comm, memory, kBytes, &window, 0) != ncclSuccess) return;
       ncclWinGetUserPtr(comm, window, &seen);
       ncclCommWindowDeregister(comm, window);
     }},
    {"Split",
     [](ncclComm_t comm, void*) {
       ncclComm_t child = nullptr;
       if (ncclCommSplit(comm, 0, 0, &child, nullptr) == ncclSuccess) ncclCommDestroy(child);
     }},
    {"Pause",
     [](ncclComm_t comm, void*) {
       ncclCommSuspend(comm, NCCL_SUSPEND_MEM);
       ncclCommResume(comm);
     }},
    {"Group", Reduce},
    {"Revoke", [](ncclComm_t comm, void*) { ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); }},
    {"Finalize", [](ncclComm_t comm, void*) { ncclCommFinalize(comm); }},
};

class Race : public testing::TestWithParam<Beside> {
 protected:
  void SetUp() override { ASSERT_EQ(ncclMemAlloc(&memory_, kBytes), ncclSuccess) << ncclGetLastError(nullptr); }
  void TearDown() override { ncclMemFree(memory_); }

  // Communicators come and are ended by `end`, while another thread calls and calls.
  void EndBeside(ncclResult_t (*end)(ncclComm_t)) {
    std::atomic<ncclComm_t> current{nullptr};
    std::atomic<bool> is_over{false};
    std::thread caller([&] {
      while (!is_over.load()) {
        if (ncclComm_t comm = current.load(); comm != nullptr) GetParam().call(comm, memory_);
      }
    });
    for (unsigned round = 0; round < kRounds; ++round) {
      ncclUniqueId id;
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
      EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << ncclGetLastError(nullptr);
      current.store(comm);
      usleep(round * 7 % 300);  // the caller is elsewhere in its call each time
      end(comm);
    }
    current.store(nullptr);
    is_over.store(true);
    caller.join();
  }

  void* memory_ = nullptr;
};

TEST_P(Race, WithAnAbortEndsWell) { EndBeside(ncclCommAbort); }
TEST_P(Race, WithADestroyEndsWell) { EndBeside(ncclCommDestroy); }

INSTANTIATE_TEST_SUITE_P(Calls, Race, testing::ValuesIn(kCalls),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace

// SPDX-License-Identifier: Apache-2.0
//
// Calls that use a communicator against its end on another thread: the end frees nothing while a call is inside.
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "modules/frontend-nccl/comm.h"
#include "modules/frontend-nccl/tests/fixture.h"
#include "sdk/clock.h"

namespace sl::frontend_nccl {
namespace {

class Marks : public Fixture {
 protected:
  static ncclResult_t Reduce(ncclComm_t comm) {
    static float value = 1;
    return ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
  }

  // Makes `call`, and begins an abort on another thread when it has come to the kernel's call of that name: there it
  // stays until the abort has cancelled what may be waited for, or has gone on to free the communicator.
  static void AbortInside(ncclComm_t comm, const std::string& kernel_call, const std::function<ncclResult_t()>& call) {
    std::thread watchdog;
    std::atomic<bool> is_inside{false};
    Fake().on_call = [&](const std::string& called) {
      if (called.rfind(kernel_call, 0) != 0 || is_inside.exchange(true)) return;
      watchdog = std::thread([comm] { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess) << Text(); });
      const uint64_t deadline_ns = NowNs() + 10'000'000'000;
      while (Fake().Count("comm_cancel") + Fake().Count("comm_abort") == 0 && NowNs() < deadline_ns) {
        std::this_thread::yield();
      }
      EXPECT_EQ(Fake().Count("comm_abort"), 0) << "freed while " << kernel_call << " is inside";
    };
    call();
    ASSERT_TRUE(is_inside.load()) << kernel_call << " was not called";
    watchdog.join();
    EXPECT_EQ(Fake().Count("comm_abort"), 1) << kernel_call;
  }
};

TEST_F(Marks, AbortFreesNothingWhileACallIsInside) {
  float value = 1;
  ncclWaitSignalDesc_t one = {1, 0, 0, 0};
  void* out = nullptr;
  ncclWindow_t window = nullptr;
  struct Case {
    const char* kernel_call;
    std::function<ncclResult_t(ncclComm_t)> call;
  };
  const auto grouped = [](int calls, ncclComm_t comm) {
    ncclGroupStart();
    for (int i = 0; i < calls; ++i) EXPECT_EQ(Reduce(comm), ncclSuccess);
    return ncclGroupEnd();
  };
  const std::vector<Case> cases = {
      {"enqueue all_reduce", Reduce},
      {"enqueue send", [&](ncclComm_t comm) { return ncclSend(&value, 1, ncclFloat, 0, comm, nullptr); }},
      {"enqueue all_reduce", [&](ncclComm_t comm) { return grouped(1, comm); }},
      {"enqueue_group 2", [&](ncclComm_t comm) { return grouped(2, comm); }},
      {"put_signal", [&](ncclComm_t comm) { return ncclSignal(0, 0, 0, 0, comm, nullptr); }},
      {"wait_signals", [&](ncclComm_t comm) { return ncclWaitSignal(1, &one, comm, nullptr); }},
      {"register_memory", [&](ncclComm_t comm) { return ncclCommRegister(comm, &value, sizeof(value), &out); }},
      {"deregister_memory", [&](ncclComm_t comm) { return ncclCommDeregister(comm, &value); }},
      {"window_register",
       [&](ncclComm_t comm) { return ncclCommWindowRegister(comm, &value, sizeof(value), &window, 0); }},
  };
  for (const Case& one_case : cases) {
    Fake().Reset();
    const ncclComm_t comm = MakeComm();
    AbortInside(comm, one_case.kernel_call, [&] { return one_case.call(comm); });
  }
}

// The call has seen that the communicator is ready, and then its thread rested until the end was over.
TEST_F(Marks, OperationThatComesAfterTheEndTouchesNothing) {
  const ncclComm_t comm = MakeComm();
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  const OpMark mark(comm);
  EXPECT_TRUE(mark.is_alone());
  EXPECT_FALSE(OpMark::MayIssue(comm));
}

// The kernel is asked by a call that marks itself, and so refuses it, or finds that the other one has left.
TEST_F(Marks, SecondCallAtOnceIsForTheKernelToJudge) {
  const ncclComm_t comm = MakeComm();
  {
    const OpMark first(comm);
    EXPECT_TRUE(OpMark::MayIssue(comm));
    EXPECT_EQ(Reduce(comm), ncclSuccess) << Text();
    EXPECT_EQ(Fake().Count("enqueue all_reduce"), 0);
    EXPECT_EQ(Fake().Count("enqueue_group 1"), 1);
    EXPECT_FALSE(OpMark(comm).is_alone()) << "the mark of the first one stays";
  }
  EXPECT_EQ(Reduce(comm), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("enqueue all_reduce"), 1);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// The kernel keeps its memory; another communicator in the slot would lose its mark to the old operation.
TEST_F(Marks, SlotOfAnOperationThatNeverLeavesIsNotUsedAgain) {
  const ncclComm_t comm = MakeComm();
  const OpMark stuck(comm);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  std::set<ncclComm_t> seen;
  for (int i = 0; i < 4 * static_cast<int>(kQuarantine); ++i) {
    const ncclComm_t other = MakeComm();
    seen.insert(other);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  }
  EXPECT_LT(seen.size(), 2u * kQuarantine) << "slots are used again";
  EXPECT_EQ(seen.count(comm), 0u);
}

}  // namespace
}  // namespace sl::frontend_nccl

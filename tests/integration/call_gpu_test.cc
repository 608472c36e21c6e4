// SPDX-License-Identifier: Apache-2.0
//
// Collectives with settings of their own (ncclCollConfig_t) on GPUs of the fake CUDA driver: events behind launches, in
// captures, and copy engines for one call.
#include <dlfcn.h>

#include <string>
#include <vector>

#include "nccl_starling.h"
#include "tests/integration/fake_gpu.h"

namespace sl::integration {
namespace {

class CallOnGpu : public Unwatched {
 protected:
  // As the program makes one.
  class Event {
   public:
    Event() { EXPECT_EQ(Driver<decltype(cuEventCreate)>("cuEventCreate")(&event_, 2 /* no timing */), cu::kSuccess); }
    ~Event() { EXPECT_EQ(Driver<decltype(cuEventDestroy_v2)>("cuEventDestroy_v2")(event_), cu::kSuccess); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    cu::Code Query() const { return Driver<decltype(cuEventQuery)>("cuEventQuery")(event_); }
    cudaEvent_t get() const { return reinterpret_cast<cudaEvent_t>(event_); }

   private:
    template <typename Function>
    static Function* Driver(const char* name) {
      static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      return reinterpret_cast<Function*>(dlsym(library, name));
    }
    cu::Event* event_ = nullptr;
  };

  static ncclResult_t Reduce(int* value, ncclComm_t comm, const Event* event) {
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    if (event != nullptr) config.launchCompletionEvent = event->get();
    return ncclAllReduceConfig(value, value, 1, ncclInt32, ncclSum, comm, nullptr, &config);
  }
};

TEST_F(CallOnGpu, RecordsTheEventBehindItsLaunch) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const Event event;
    EXPECT_EQ(event.Query(), cu::kSuccess) << "recorded nowhere yet";
    const FakeGpu::Gate gate(gpu);
    int value = 1 + team.rank();
    NCCL_OK(Reduce(&value, comm, &event));
    EXPECT_EQ(event.Query(), cu::kNotReady);
    gate.Open();
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(event.Query(), cu::kSuccess);
    EXPECT_EQ(value, 3);
    NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(CallOnGpu, RecordsOneEventOfAGroupForEachCommunicator) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comms[] = {team.MakeComm(), team.MakeComm()};
    const Event events[2];
    const FakeGpu::Gate gate(gpu);
    int values[3] = {1, 1, 1};
    NCCL_OK(ncclGroupStart());
    NCCL_OK(Reduce(&values[0], comms[0], &events[0]));
    NCCL_OK(Reduce(&values[1], comms[0], nullptr));
    NCCL_OK(Reduce(&values[2], comms[1], &events[1]));
    NCCL_OK(ncclGroupEnd());
    for (const Event& event : events) EXPECT_EQ(event.Query(), cu::kNotReady);
    gate.Open();
    ASSERT_TRUE(gpu.Synchronize(30));
    for (const Event& event : events) EXPECT_EQ(event.Query(), cu::kSuccess);
    for (int value : values) EXPECT_EQ(value, 2);
    team.Barrier();
    NCCL_OK(ncclGroupStart());
    NCCL_OK(Reduce(&values[0], comms[0], &events[0]));
    NCCL_OK(Reduce(&values[1], comms[0], &events[1]));
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_TRUE(LastErrorHas("a group records one event for each communicator"));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(values[0], 2) << "nothing was issued";
    for (ncclComm_t comm : comms) NCCL_OK(ncclCommDestroy(comm));
  });
}

TEST_F(CallOnGpu, CapturesTheEventIntoGraphs) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    const Event event;
    int value = 1;
    gpu.BeginCapture();
    NCCL_OK(Reduce(&value, comm, &event));
    void* graph = gpu.EndCapture();
    EXPECT_EQ(event.Query(), cu::kCapturedEvent);
    for (const int wanted : {2, 4}) {
      team.Barrier();
      gpu.Launch(graph);
      ASSERT_TRUE(gpu.Synchronize(30));
      EXPECT_EQ(value, wanted);
    }
    NCCL_OK(Reduce(&value, comm, &event));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(event.Query(), cu::kSuccess) << "recorded anew, outside graphs";
    NCCL_OK(ncclCommAbort(comm));
  });
}

// The communicator leaves scatters alone, which copy engines serve where a program asks for no SMs.
TEST_F(CallOnGpu, TakesCopyEnginesForTheCallThatWantsNoSms) {
  RunProcesses(2, [](Team& team) {
    const FakeGpu gpu;
    const ncclComm_t comm = team.MakeComm();
    constexpr size_t kCount = 256;
    void* memory = nullptr;
    NCCL_OK(ncclMemAlloc(&memory, 4 * kCount * sizeof(int)));
    ncclWindow_t window = nullptr;
    NCCL_OK(ncclCommWindowRegister(comm, memory, 4 * kCount * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
    int* const send = static_cast<int*>(memory);
    int* const recv = send + 2 * kCount;
    for (size_t i = 0; i < 2 * kCount; ++i) send[i] = static_cast<int>(i);
    team.Barrier();
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    EXPECT_EQ(ncclScatterConfig(send, recv, kCount, ncclInt32, 0, comm, nullptr, &config), ncclInvalidUsage);
    EXPECT_TRUE(LastErrorHas("nobody asked for CTA policy ZERO"));
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    NCCL_OK(ncclScatterConfig(send, recv, kCount, ncclInt32, 0, comm, nullptr, &config));
    ASSERT_TRUE(gpu.Synchronize(30));
    EXPECT_EQ(recv[0], team.rank() == 0 ? 0 : static_cast<int>(kCount));
    EXPECT_EQ(recv[kCount - 1], static_cast<int>(kCount) * (1 + team.rank()) - 1);
    char text[512] = {};
    NCCL_OK(ncclStarlingServedBy(comm, text, sizeof(text)));
    EXPECT_EQ(std::string(text).rfind("copy\t", 0), 0u) << text;
    EXPECT_EQ(ncclScatter(send, recv, kCount, ncclInt32, 0, comm, nullptr), ncclInvalidUsage) << "the next one again";
    team.Barrier();
    NCCL_OK(ncclCommWindowDeregister(comm, window));
    NCCL_OK(ncclCommDestroy(comm));
    NCCL_OK(ncclMemFree(memory));
  });
}

}  // namespace
}  // namespace sl::integration

// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

class OneSided : public Fixture {
 protected:
  void SetUp() override {
    Fixture::SetUp();
    comms_ = MakeComms(2);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(ncclCommWindowRegister(comms_[i], buffers_[i], 64, &windows_[i], 0), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
    Fake().calls.clear();
  }
  void TearDown() override { DestroyComms(comms_); }

  ncclResult_t Put(size_t count, int peer, int signal = 0, int context = 0, unsigned flags = 0) {
    return ncclPutSignal(buffers_[0], count, ncclFloat32, peer, windows_[0], 8, signal, context, flags, comms_[0],
                         nullptr);
  }

  std::vector<ncclComm_t> comms_;
  char buffers_[2][64] = {};
  ncclWindow_t windows_[2] = {};
};

TEST_F(OneSided, PutsTellTheKernelBytesAndPlace) {
  EXPECT_EQ(Put(3, 1), ncclSuccess) << Text();
  EXPECT_EQ(Put(0, 1), ncclSuccess) << Text();
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, comms_[0], nullptr), ncclSuccess) << Text();
  const std::vector<std::string> calls = {"put_signal 12 to 1 at 8", "put_signal 0 to 1 at 8",
                                          "put_signal 0 to 0 at 0"};
  EXPECT_EQ(Fake().calls, calls);
}

TEST_F(OneSided, WaitsNameEveryRank) {
  ncclWaitSignalDesc_t wanted[] = {{1, 0, 0, 0}, {5, 1, 0, 0}};
  EXPECT_EQ(ncclWaitSignal(2, wanted, comms_[0], nullptr), ncclSuccess) << Text();
  EXPECT_EQ(ncclWaitSignal(0, nullptr, comms_[0], nullptr), ncclSuccess) << Text();
  const std::vector<std::string> calls = {"wait_signals 1 of 0 5 of 1", "wait_signals"};
  EXPECT_EQ(Fake().calls, calls);
}

TEST_F(OneSided, GroupsIssueTheirWaitsLast) {
  ncclWaitSignalDesc_t wanted = {1, 1, 0, 0};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclWaitSignal(1, &wanted, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(Put(1, 1), ncclSuccess);
  EXPECT_EQ(ncclSignal(1, 0, 0, 0, comms_[0], nullptr), ncclSuccess);
  EXPECT_TRUE(Fake().calls.empty());
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  const std::vector<std::string> calls = {"put_signal 4 to 1 at 8", "put_signal 0 to 1 at 0", "wait_signals 1 of 1"};
  EXPECT_EQ(Fake().calls, calls);
}

TEST_F(OneSided, GroupsIssueNothingAfterAFault) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Put(1, 1), ncclSuccess);
  EXPECT_EQ(Put(1, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("ncclPutSignal: argument peer is 2, must be a rank, 0 to 1")) << Text();
  EXPECT_TRUE(Fake().calls.empty());
}

TEST_F(OneSided, AWindowThatIsDeregisteredInTheGroupIsRefusedAtItsEnd) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Put(1, 1), ncclSuccess);
  EXPECT_EQ(ncclCommWindowDeregister(comms_[0], windows_[0]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("is no window of this communicator, or was deregistered")) << Text();
  EXPECT_EQ(Fake().Count("put_signal"), 0);
}

TEST_F(OneSided, FaultsAreNamed) {
  EXPECT_EQ(Put(1, 1, 1), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("sigIdx, ctx and flags are 1, 0 and 0, must be 0")) << Text();
  EXPECT_EQ(Put(1, 1, 0, 2), ncclInvalidArgument);
  EXPECT_EQ(Put(1, 1, 0, 0, 3), ncclInvalidArgument);
  EXPECT_EQ(Put(1, -1), ncclInvalidArgument);
  EXPECT_EQ(ncclPutSignal(nullptr, 1, ncclFloat32, 1, windows_[0], 0, 0, 0, 0, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(TextHas("localbuff is NULL")) << Text();
  EXPECT_EQ(ncclPutSignal(buffers_[0], 1, ncclFloat32, 1, windows_[1], 0, 0, 0, 0, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_TRUE(TextHas("is no window of this communicator")) << Text();
  EXPECT_EQ(ncclPutSignal(buffers_[0], SIZE_MAX, ncclFloat32, 1, windows_[0], 0, 0, 0, 0, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclSignal(0, 0, 0, 0, nullptr, nullptr), ncclInvalidArgument);
  ncclWaitSignalDesc_t wanted = {-1, 0, 0, 0};
  EXPECT_EQ(ncclWaitSignal(1, &wanted, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclWaitSignal(-1, &wanted, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclWaitSignal(1, nullptr, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_TRUE(Fake().calls.empty());
}

TEST_F(OneSided, WhatTheKernelRefusesIsPassedOn) {
  Fake().enqueue_status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(ncclSignal(1, 0, 0, 0, comms_[0], nullptr), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("ncclSignal: the fake said so")) << Text();
}

}  // namespace
}  // namespace sl::frontend_nccl

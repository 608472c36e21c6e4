// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/nccl_device_host.h"
#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

class Memory : public Fixture {};

TEST_F(Memory, IsAllocatedAndFreed) {
  void* memory = nullptr;
  EXPECT_EQ(ncclMemAlloc(&memory, 64), ncclSuccess);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
  EXPECT_EQ(ncclMemAlloc(&memory, 0), ncclSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(ncclMemAlloc(nullptr, 64), ncclInvalidArgument);
}

TEST_F(Memory, IsRegistered) {
  const ncclComm_t comm = MakeComm();
  char buffer[64];
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(comm, buffer, sizeof(buffer), &handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(comm, nullptr), ncclSuccess);
  Fake().window_status = SL_ERR_INVALID;
  EXPECT_EQ(ncclCommDeregister(comm, handle), ncclInvalidUsage);
  EXPECT_EQ(ncclCommRegister(comm, nullptr, 1, &handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comm, buffer, 0, &handle), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(comm, buffer, 1, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommRegister(nullptr, buffer, 1, &handle), ncclInvalidArgument);
  DestroyComms({comm});
}

TEST_F(Memory, WindowsOfOneThreadAreMadeTogether) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  char buffers[2][64];
  ncclWindow_t windows[2] = {nullptr, nullptr};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        ncclCommWindowRegister(comms[static_cast<size_t>(i)], buffers[i], 64, &windows[i], NCCL_WIN_COLL_SYMMETRIC),
        ncclSuccess);
    EXPECT_EQ(windows[i], nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("window_register 0 flags 1") + Fake().Count("window_register 1 flags 1"), 2);
  void* memory = nullptr;
  EXPECT_EQ(ncclWinGetUserPtr(comms[0], windows[0], &memory), ncclSuccess);
  EXPECT_EQ(memory, buffers[0]);
  EXPECT_EQ(ncclWinGetUserPtr(comms[0], windows[1], &memory), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms[0], windows[0]), ncclSuccess);
  EXPECT_EQ(ncclCommWindowDeregister(comms[0], windows[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowDeregister(comms[0], nullptr), ncclSuccess);
  DestroyComms(comms);  // and the other window with them
}

// Whatever another thread asks of a window while the first is inside its deregistration.
TEST_F(Memory, WindowIsDeregisteredByOneOfSeveralThreads) {
  const ncclComm_t comm = MakeComm();
  char buffer[64];
  ncclWindow_t window = nullptr;
  ASSERT_EQ(ncclCommWindowRegister(comm, buffer, sizeof(buffer), &window, 0), ncclSuccess) << Text();
  void* memory = nullptr;
  ncclResult_t second = ncclSuccess;
  ncclResult_t asked = ncclSuccess;
  int entered = 0;
  Fake().in_window_deregister = [&] {
    if (++entered > 1) return;
    second = ncclCommWindowDeregister(comm, window);
    asked = ncclWinGetUserPtr(comm, window, &memory);
  };
  EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess) << Text();
  EXPECT_EQ(second, ncclInvalidArgument);
  EXPECT_EQ(asked, ncclInvalidArgument);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(Fake().Count("window_deregister"), 1);
  DestroyComms({comm});
}

TEST_F(Memory, WindowFailuresAreNamed) {
  const ncclComm_t comm = MakeComm();
  char buffer[64];
  ncclWindow_t window = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm, buffer, 64, &window, 16), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument winFlags is 16")) << Text();
  EXPECT_EQ(ncclCommWindowRegister(comm, buffer, 64, &window, NCCL_WIN_CFT_COUNTED), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("NCCL_WIN_CFT_COUNTED")) << Text();
  EXPECT_EQ(ncclCommWindowRegister(comm, buffer, 64, nullptr, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommWindowRegister(comm, nullptr, 64, &window, 0), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument buff is NULL")) << Text();
  EXPECT_EQ(Fake().Count("comm_decline 2"), 4) << "the other ranks wait for this one";
  Fake().window_status = SL_ERR_UNSUPPORTED;
  EXPECT_EQ(ncclCommWindowRegister(comm, buffer, 64, &window, 0), ncclInvalidUsage);
  EXPECT_EQ(Text(), "ncclCommWindowRegister: the fake said so");
  EXPECT_EQ(window, nullptr);
  DestroyComms({comm});
}

TEST_F(Memory, DeviceApiComputesAndRefuses) {
  const std::vector<ncclComm_t> comms = MakeComms(3);
  const ncclTeam_t world = ncclTeamWorld(comms[1]);
  EXPECT_EQ(world.nRanks, 3);
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.stride, 1);
  EXPECT_EQ(ncclTeamLsa(comms[1]).nRanks, 1);
  EXPECT_EQ(ncclTeamRail(comms[1]).nRanks, 3);
  EXPECT_EQ(ncclTeamWorld(nullptr).nRanks, 0);
  EXPECT_EQ(ncclTeamRankToWorld(comms[1], world, 2), 2);
  EXPECT_EQ(ncclTeamRankToWorld(comms[1], ncclTeamLsa(comms[1]), 0), 1);
  EXPECT_EQ(ncclTeamRankToLsa(comms[1], world, 1), 0);
  EXPECT_EQ(ncclLLA2ACalcSlots(3, 12), 6);
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  EXPECT_EQ(ncclCommQueryProperties(comms[1], &properties), ncclSuccess);
  EXPECT_EQ(properties.rank, 1);
  EXPECT_EQ(properties.nRanks, 3);
  EXPECT_FALSE(properties.deviceApiSupport);
  properties.magic = 0;
  EXPECT_EQ(ncclCommQueryProperties(comms[1], &properties), ncclInvalidArgument);
  EXPECT_EQ(ncclDevCommCreate(comms[1], nullptr, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("the device API is not served")) << Text();
  EXPECT_EQ(ncclDevCommCreate(nullptr, nullptr, nullptr), ncclInvalidArgument);
  DestroyComms(comms);
}

}  // namespace
}  // namespace sl::frontend_nccl

// SPDX-License-Identifier: Apache-2.0
#include "modules/frontend-nccl/group.h"

#include <thread>

#include "modules/frontend-nccl/tests/fixture.h"

namespace sl::frontend_nccl {
namespace {

class GroupCalls : public Fixture {
 protected:
  static ncclResult_t Reduce(ncclComm_t comm) {
    static float value = 1;
    return ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, comm, nullptr);
  }
};

TEST_F(GroupCalls, EndWithoutStartIsRefused) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("call ncclGroupStart first")) << Text();
  EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage);
}

TEST_F(GroupCalls, AreIssuedInOneCallAtTheOutermostEnd) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comms[0]), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comms[1]), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Fake().Count("enqueue"), 0);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_EQ(Fake().Count("enqueue_group 2"), 1);
  EXPECT_EQ(Fake().ops.size(), 2u);
  EXPECT_EQ(Reduce(comms[0]), ncclSuccess);
  EXPECT_EQ(Fake().Count("enqueue all_reduce"), 1);
  DestroyComms(comms);
}

TEST_F(GroupCalls, EmptyGroupAndGroupOfOneCostNoSchedule) {
  const ncclComm_t comm = MakeComm();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(Fake().Count("enqueue_group"), 0);
  EXPECT_EQ(Fake().Count("enqueue all_reduce"), 1);
  DestroyComms({comm});
}

TEST_F(GroupCalls, BelongToTheirThread) {
  const ncclComm_t comm = MakeComm();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  std::thread([comm] { EXPECT_EQ(Reduce(comm), ncclSuccess); }).join();
  EXPECT_EQ(Fake().Count("enqueue all_reduce"), 1);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  DestroyComms({comm});
}

TEST_F(GroupCalls, EndRepeatsTheFirstErrorAndIssuesNothing) {
  const ncclComm_t comm = MakeComm();
  float value = 1;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&value, &value, 1, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclSend(&value, 1, ncclFloat, 7, comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("argument datatype is 12")) << Text();
  EXPECT_EQ(Fake().Count("enqueue"), 0);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << "an error must not outlive its group";
  DestroyComms({comm});
}

TEST_F(GroupCalls, MakeCommunicatorsOfOneThread) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2] = {nullptr, nullptr};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[0], 2, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[1], 2, id, 1), ncclSuccess);
  EXPECT_EQ(Fake().Count("comm_create"), 0);
  EXPECT_EQ(Reduce(comms[0]), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("made in this group")) << Text();
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[0], 2, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[1], 2, id, 1), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  DestroyComms({comms[0], comms[1]});
}

TEST_F(GroupCalls, FailedInitLeavesNothingBehind) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2];
  Fake().wait_status = SL_ERR_PEER_LOST;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[0], 2, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&comms[1], 2, id, 1), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  EXPECT_EQ(comms[0], nullptr);
  EXPECT_EQ(comms[1], nullptr);
  EXPECT_TRUE(Fake().live.empty());
  EXPECT_EQ(Fake().Count("comm_wait"), 1) << "after a failure nobody waits";
}

// The variable that was to hold the communicator may have gone before the thread, and its memory be another's by now.
TEST_F(GroupCalls, LeftOpenWriteNothingWhenTheirThreadEnds) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t handed_out = nullptr;
  ncclComm_t place = nullptr;
  const auto of_another = reinterpret_cast<ncclComm_t>(uintptr_t{0x5a5a5a5a5a5a5a5a});
  std::thread([&] {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommInitRank(&place, 1, id, 0), ncclSuccess);
    handed_out = place;
    place = of_another;
  }).join();
  EXPECT_EQ(place, of_another);
  EXPECT_EQ(Fake().Count("comm_create"), 0);
  int size = 0;
  EXPECT_EQ(ncclCommCount(handed_out, &size), ncclInvalidArgument) << "the communicator ended with the group";
}

TEST_F(GroupCalls, NonBlockingInitIsPolled) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2];
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
  for (ncclComm_t comm : comms) {
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
  }
  const ncclComm_t blocking = MakeComm();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comms[0]), ncclSuccess);
  EXPECT_EQ(Reduce(blocking), ncclInvalidArgument);
  EXPECT_TRUE(TextHas("cannot mix")) << Text();
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  DestroyComms({comms[0], comms[1], blocking});
}

TEST_F(GroupCalls, FinalizeAndDestroyRanksTogether) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << Text();
  EXPECT_TRUE(Fake().live.empty());
  EXPECT_EQ(Fake().Count("comm_finalize"), 2);
}

TEST_F(GroupCalls, DestroyTwiceInOneGroupIsRefused) {
  const ncclComm_t comm = MakeComm();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(Fake().live.empty());
}

TEST_F(GroupCalls, AbortInsideDropsItsOperations) {
  const ncclComm_t comm = MakeComm();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(Fake().Count("enqueue"), 0);
}

TEST_F(GroupCalls, AbortInsideRefusesWhatWasToFollow) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  ncclComm_t child = nullptr;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommSplit(comms[0], 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comms[1]), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("ended while the group was open")) << Text();
  EXPECT_EQ(child, nullptr);
  EXPECT_TRUE(Fake().live.empty());
}

TEST_F(GroupCalls, KernelFailureIsTheGroupsResult) {
  const std::vector<ncclComm_t> comms = MakeComms(2);
  Fake().enqueue_status = SL_ERR_MISMATCH;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (ncclComm_t comm : comms) EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(TextHas("ncclGroupEnd: the fake said so")) << Text();
  DestroyComms(comms);
}

TEST_F(GroupCalls, SimulationEstimatesAndIssuesNothing) {
  const ncclComm_t comm = MakeComm();
  Fake().estimate_ns = 1250;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << Text();
  EXPECT_FLOAT_EQ(info.estimatedTime, 2.5f);
  EXPECT_EQ(Fake().Count("enqueue"), 0);
  Fake().estimate_ns = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(Reduce(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
  EXPECT_FLOAT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT);
  info.magic = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the simulation ended the group";
  DestroyComms({comm});
}

}  // namespace
}  // namespace sl::frontend_nccl

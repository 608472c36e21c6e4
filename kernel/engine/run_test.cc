// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/run.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "kernel/engine/plan_world_test_util.h"
#include "kernel/events/last_error.h"
#include "kernel/events/ring.h"
#include "kernel/plan/allocation_count_test_util.h"
#include "kernel/plan/signature.h"

namespace sl::kernel {
namespace {

constexpr sl_operand_t kSend{SL_BUFFER_SEND, 0, 0, -1};
constexpr sl_operand_t kRecv{SL_BUFFER_RECV, 0, 0, -1};
sl_operand_t In(int32_t peer) { return {SL_BUFFER_INBOX, 0, 0, peer}; }

sl_op_t Op(sl_op_kind_t kind, uint64_t count, uint64_t seq = 1) {
  sl_op_t op{};
  op.struct_size = sizeof(op);
  op.kind = kind;
  op.datatype = SL_INT32;
  op.root = -1;
  op.peer = -1;
  op.count = count;
  op.seq = seq;
  return op;
}

// Steps of one lane, appended one by one.
class Maker {
 public:
  Maker(uint32_t rank, uint32_t ranks, const sl_op_t& op, uint64_t chunk, uint64_t rounds,
        const std::string& algorithm = "")
      : builder_({rank, ranks, 2, 4096, 8, op, algorithm}) {
    sl_plan_desc_t desc{};
    desc.struct_size = sizeof(desc);
    desc.block_modulus = ranks;
    desc.chunk = chunk;
    desc.rounds = rounds;
    desc.send = {op.count, op.count, SendElements(op, rank, ranks)};
    desc.recv = {op.count, op.count, RecvElements(op, rank, ranks)};
    EXPECT_TRUE(builder_.Describe(desc).ok());
    EXPECT_TRUE(builder_.BeginLane().ok());
  }
  Maker& Lane() {
    EXPECT_TRUE(builder_.BeginLane().ok());
    return *this;
  }
  Maker& Put(int32_t peer, sl_operand_t shape = kSend) {
    sl_step_t step = MakeStep(SL_STEP_PUT, peer, shape);
    step.a = shape;
    return Add(step);
  }
  Maker& Take(int32_t peer, sl_operand_t block = kRecv) {
    Add(MakeStep(SL_STEP_WAIT, peer, block));
    sl_step_t copy = MakeStep(SL_STEP_COPY, -1, block);
    copy.a = In(peer);
    copy.dst = block;
    Add(copy);
    return Add(MakeStep(SL_STEP_RELEASE, peer, block));
  }
  Maker& Add(const sl_step_t& step) {
    EXPECT_TRUE(builder_.AddStep(step).ok()) << builder_.error().message();
    return *this;
  }
  std::unique_ptr<Plan> Done() { return builder_.Finish().Take(); }

 private:
  PlanBuilder builder_;
};

// Both ranks send all they have and add what comes: an all-reduce of two.
std::unique_ptr<Plan> Exchange(uint32_t rank, const sl_op_t& op, uint64_t chunk, const std::string& algorithm = "") {
  const auto peer = static_cast<int32_t>(1 - rank);
  sl_step_t reduce = MakeStep(SL_STEP_REDUCE, -1, kSend);
  reduce.a = rank == 0 ? kSend : In(peer);
  reduce.b = rank == 0 ? In(peer) : kSend;
  reduce.dst = kRecv;
  reduce.flags = SL_STEP_FINAL;
  return Maker(rank, 2, op, chunk, (op.count + chunk - 1) / chunk, algorithm)
      .Put(peer)
      .Add(MakeStep(SL_STEP_WAIT, peer, kSend))
      .Add(reduce)
      .Add(MakeStep(SL_STEP_RELEASE, peer, kSend))
      .Done();
}

sl_op_t With(sl_op_t op, const std::vector<int32_t>& send, std::vector<int32_t>* recv) {
  op.send = send.data();
  op.recv = recv->data();
  return op;
}

// A graph is launched before eager work on one rank and behind it on the other.
TEST(Run, KeepsCapturedOperationsApartFromEagerOnes) {
  sl_op_t eager = Op(SL_OP_ALL_REDUCE, 100);
  sl_op_t captured = eager;
  captured.capture = 1;
  PlanWorld world(2, {});
  const std::unique_ptr<Plan> plans[] = {Exchange(0, eager, 16), Exchange(1, eager, 16)};
  const std::vector<int32_t> ones(100, 1), tens(100, 10);
  std::vector<int32_t> sums[2], captured_sums[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    sums[rank].resize(100);
    captured_sums[rank].resize(100);
    for (const bool is_captured : {rank == 0, rank != 0}) {
      const sl_op_t op = is_captured ? With(captured, tens, &captured_sums[rank]) : With(eager, ones, &sums[rank]);
      ASSERT_TRUE(world.Start(rank, *plans[rank], op).ok());
    }
  }
  EXPECT_EQ(world.Drive(), "");
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(sums[rank], std::vector<int32_t>(100, 2));
    EXPECT_EQ(captured_sums[rank], std::vector<int32_t>(100, 20));
  }
}

// An exception that ends a poll gives the links back all the same.
TEST(Run, FailsWithoutMemoryAndLeavesTheLinksFree) {
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 100);
  PlanWorld world(2, {.networked = {1}});
  const std::unique_ptr<Plan> plan = Exchange(0, op, 16);
  const std::vector<int32_t> send(100, 1);
  std::vector<int32_t> recv(100);
  ASSERT_TRUE(world.Start(0, *plan, With(op, send, &recv)).ok());
  world.net().ExhaustMemory();
  EXPECT_EQ(world.Drive(), "out of memory");
  EXPECT_EQ(world.outcome(0), SL_ERR_MEMORY);
  EXPECT_TRUE(Driving(world.net().provider(0)).has_begun());
  EXPECT_EQ(world.pool(0).failure().code(), SL_ERR_MEMORY);
}

TEST(Run, ExecutesAPlanOverManyRounds) {
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 1000);
  PlanWorld world(2, {});
  const auto plan0 = Exchange(0, op, 16);
  const auto plan1 = Exchange(1, op, 16);
  std::vector<int32_t> send(1000);
  std::iota(send.begin(), send.end(), 0);
  std::vector<int32_t> recv0(1000), recv1(1000), expected(1000);
  for (int i = 0; i < 1000; ++i) expected[i] = 2 * i;
  ASSERT_TRUE(world.Start(0, *plan0, With(op, send, &recv0)).ok());
  ASSERT_TRUE(world.Start(1, *plan1, With(op, send, &recv1)).ok());
  EXPECT_TRUE(plan0->held());
  EXPECT_EQ(world.Drive(), "");
  EXPECT_EQ(recv0, expected);
  EXPECT_EQ(recv1, expected);
  EXPECT_EQ(world.net().posted(), 2u * 63u);
  EXPECT_FALSE(plan0->held());
  EXPECT_EQ(world.pool(0).running(), 0u);
}

TEST(Run, AllocatesNothingWhenWarm) {
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 100);
  PlanWorld world(2, {});
  const auto plan0 = Exchange(0, op, 16);
  const auto plan1 = Exchange(1, op, 16);
  std::vector<int32_t> send(100, 1), recv0(100), recv1(100);
  uint64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    kernel::Run* run0 = nullptr;
    kernel::Run* run1 = nullptr;
    ASSERT_TRUE(world.pool(0).Start(*plan0, With(op, send, &recv0), &run0).ok());
    ASSERT_TRUE(world.pool(1).Start(*plan1, With(op, send, &recv1), &run1).ok());
    sl_wait_t wait{};
    for (int polls = 0; polls < 1000 && !(run0->finished() && run1->finished()); ++polls) {
      static_cast<void>(run0->Poll(&wait));
      static_cast<void>(run1->Poll(&wait));
    }
    ASSERT_TRUE(run0->finished() && run1->finished());
    world.pool(0).Finish(run0);
    world.pool(1).Finish(run1);
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST(Run, ReportsAMismatchWithBothSidesArguments) {
  PlanWorld world(2, {});
  const sl_op_t op0 = Op(SL_OP_ALL_REDUCE, 10, 4);
  const sl_op_t op1 = Op(SL_OP_ALL_REDUCE, 12, 4);
  const auto plan0 = Exchange(0, op0, 16);
  const auto plan1 = Exchange(1, op1, 16);
  std::vector<int32_t> send(12, 1), recv0(12), recv1(12);
  ASSERT_TRUE(world.Start(0, *plan0, With(op0, send, &recv0)).ok());
  ASSERT_TRUE(world.Start(1, *plan1, With(op1, send, &recv1)).ok());
  EXPECT_EQ(
      world.Drive(),
      "rank 1 all_reduce #4 lane 0 step 1 round 0: the calls of two ranks do not match: rank 1 called all_reduce of "
      "12 int32, sum; rank 0 called all_reduce of 10 int32, sum");
  EXPECT_EQ(world.outcome(0), SL_ERR_MISMATCH);
  EXPECT_EQ(world.outcome(1), SL_ERR_MISMATCH);
  EXPECT_EQ(recv0, std::vector<int32_t>(12, 0));
}

// Chunks of as many bytes, of the same call, that would be added in silence.
TEST(Run, ReportsPlansOfDifferentAlgorithms) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 20, 4);
  const auto plan0 = Exchange(0, op, 16, "ring");
  const auto plan1 = Exchange(1, op, 16, "tree");
  std::vector<int32_t> send(20, 1), recv0(20), recv1(20);
  ASSERT_TRUE(world.Start(0, *plan0, With(op, send, &recv0)).ok());
  ASSERT_TRUE(world.Start(1, *plan1, With(op, send, &recv1)).ok());
  const std::string found = world.Drive();
  EXPECT_TRUE(
      found.starts_with("rank 1 all_reduce #4 lane 0 step 1 round 0: two ranks have chosen different "
                        "algorithms: rank 1 another one, rank 0 ring; "))
      << found;
  EXPECT_EQ(world.outcome(0), SL_ERR_MISMATCH);
  EXPECT_EQ(world.outcome(1), SL_ERR_MISMATCH);
  EXPECT_EQ(recv1, std::vector<int32_t>(20, 0));
}

TEST(Run, ReportsPlansThatCutDifferently) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 20);
  const auto plan0 = Exchange(0, op, 16);
  const auto plan1 = Exchange(1, op, 20);
  std::vector<int32_t> send(20, 1), recv0(20), recv1(20);
  ASSERT_TRUE(world.Start(1, *plan1, With(op, send, &recv1)).ok());
  ASSERT_TRUE(world.Start(0, *plan0, With(op, send, &recv0)).ok());
  EXPECT_EQ(
      world.Drive(),
      "rank 0 all_reduce #1 lane 0 step 1 round 0: rank 1 sent a chunk of 80 bytes where 64 are due; do all ranks "
      "run the same version and profile?");
}

TEST(Run, PassesOnWhatALinkReports) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 20, 9);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(20, 1), recv(20);
  ASSERT_TRUE(world.Start(0, *plan, With(op, send, &recv)).ok());
  world.net().pipe(1, 0, 0)->Break(SL_ERR_PEER_LOST);
  EXPECT_EQ(world.Drive(), "rank 0 all_reduce #9 lane 0 step 1 round 0: link to rank 1: peer lost");
  EXPECT_EQ(world.outcome(0), SL_ERR_PEER_LOST);
}

TEST(Run, NamesTheRankWaitedForWhenATransportFails) {
  FakeNetOptions options;
  options.networked = {1};
  PlanWorld world(2, options);
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 20);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(20, 1), recv(20);
  ASSERT_TRUE(world.Start(0, *plan, With(op, send, &recv)).ok());
  world.net().FailProgress(SL_ERR_LINK_DOWN);
  EXPECT_EQ(world.Drive(), "rank 0 all_reduce #1 lane 0 step 1 round 0: link to rank 1: link down");
}

// A look at a network is a system call.
TEST(Run, LooksAtNetworksEveryFourthTimeWhileItWaitsForNeighboursAlone) {
  for (const bool networked : {false, true}) {
    FakeNetOptions options;
    if (networked) options.networked = {1};
    PlanWorld world(2, options);
    const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
    const auto plan = Exchange(0, op, 4);
    std::vector<int32_t> send(4, 1), recv(4);
    kernel::Run* run = nullptr;
    ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &run).ok());
    sl_wait_t wait{};
    for (int i = 0; i < 40; ++i) ASSERT_EQ(run->Poll(&wait), SL_ERR_AGAIN);
    EXPECT_EQ(world.net().looks(), networked ? 40u : 10u);
    world.net().bell(0)->sleepers = 1;  // about to sleep
    const uint64_t before = world.net().looks();
    for (int i = 0; i < 4; ++i) ASSERT_EQ(run->Poll(&wait), SL_ERR_AGAIN);
    EXPECT_EQ(world.net().looks(), before + 4);
    world.pool(0).Finish(run);
  }
}

TEST(Run, StopsAllRunsOfItsPoolWhenOneFails) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(4, 1), recv(4);
  kernel::Run* first = nullptr;
  kernel::Run* second = nullptr;
  ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &first).ok());
  ASSERT_TRUE(world.pool(0).Start(*plan, With(Op(SL_OP_ALL_REDUCE, 4, 2), send, &recv), &second).ok());
  sl_wait_t wait{};
  EXPECT_EQ(first->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_EQ(second->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_EQ(second->Describe(), "all_reduce #2 lane 0 step 0 round 0 waits for its turn on the link to rank 1");
  world.pool(0).Finish(first, SL_ERR_TIMEOUT);
  EXPECT_EQ(second->Poll(&wait), SL_ERR_TIMEOUT);
  EXPECT_EQ(second->status().message(),
            "rank 0 all_reduce #1 lane 0 step 1 round 0 waits for a chunk from rank 1: given up, timeout");
  EXPECT_EQ(second->Describe(), "all_reduce #2: " + second->status().message());
  world.pool(0).Finish(second);
  EXPECT_EQ(world.pool(0).Start(*plan, With(op, send, &recv), &first).code(), SL_ERR_STATE);
  EXPECT_FALSE(plan->held());
}

// What is behind another run waits for no peer, so its limits look at whether the one ahead moves.
TEST(Run, CountsWhatMovesAheadOfItButNotWhileItWaitsForAPeer) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
  const auto plan = Exchange(0, op, 4);
  const auto theirs = Exchange(1, op, 4);
  std::vector<int32_t> send(4, 1), recv(4);
  kernel::Run* first = nullptr;
  kernel::Run* second = nullptr;
  ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &first).ok());
  ASSERT_TRUE(world.pool(0).Start(*plan, With(Op(SL_OP_ALL_REDUCE, 4, 2), send, &recv), &second).ok());
  sl_wait_t wait{};
  ASSERT_EQ(second->Poll(&wait), SL_ERR_AGAIN);
  const uint64_t before = second->MovesAhead();
  EXPECT_NE(before, 0u) << "it has not begun";
  ASSERT_EQ(first->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_EQ(first->MovesAhead(), 0u) << "it waits for a chunk";
  const uint64_t sent = second->MovesAhead();
  EXPECT_GT(sent, before) << "the first has sent its chunk";
  ASSERT_EQ(second->Poll(&wait), SL_ERR_AGAIN);
  ASSERT_EQ(first->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_EQ(second->MovesAhead(), sent) << "nothing moves";
  std::vector<int32_t> their_recv(4);
  ASSERT_TRUE(world.Start(1, *theirs, With(op, send, &their_recv)).ok());
  EXPECT_EQ(world.Drive(), "");
  EXPECT_EQ(first->Poll(&wait), SL_OK);
  EXPECT_GT(second->MovesAhead(), sent) << "the first has ended";
  world.pool(0).Finish(first);
  world.pool(0).Finish(second, SL_ERR_ABORTED);
}

TEST(Run, IsEndedFromOutside) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(4, 1), recv(4);
  ASSERT_TRUE(world.Start(0, *plan, With(op, send, &recv)).ok());
  world.pool(0).Fail(Status(SL_ERR_ABORTED, "the user aborted"));
  world.pool(0).Fail(Status(SL_ERR_TIMEOUT, "too late to matter"));
  EXPECT_EQ(world.Drive(), "the user aborted");
  EXPECT_EQ(world.outcome(0), SL_ERR_ABORTED);
}

// Runs that share a link use it in the order of their starts, whatever is polled when.
TEST(Run, KeepsItsTurnOnSharedLinks) {
  for (uint32_t first = 0; first < 6; ++first) {
    PlanWorld world(2, {4096, 1, true});
    std::vector<std::unique_ptr<Plan>> plans;
    std::vector<std::vector<int32_t>> sends, recvs;
    for (int i = 0; i < 3; ++i) {
      const uint64_t count = 5 + 7 * i;
      sends.emplace_back(count, i);
      recvs.emplace_back(count, -1);
    }
    for (int i = 0; i < 3; ++i) {
      sl_op_t send = Op(SL_OP_SEND, sends[i].size(), 0);
      send.peer = 1;
      send.send = sends[i].data();
      plans.push_back(Maker(0, 2, send, 2, 20).Put(1).Done());
      ASSERT_TRUE(world.Start(0, *plans.back(), send).ok());
      sl_op_t recv = send;
      recv.kind = SL_OP_RECV;
      recv.peer = 0;
      recv.recv = recvs[i].data();
      plans.push_back(Maker(1, 2, recv, 2, 20).Take(0).Done());
      ASSERT_TRUE(world.Start(1, *plans.back(), recv).ok());
    }
    EXPECT_EQ(world.Drive(first), "");
    EXPECT_EQ(recvs, sends);
  }
}

TEST(Run, AdvancesLanesIndependently) {
  // Rank 0 receives from 1 and 2 in two lanes; 1 never comes, 2 is taken all the same.
  PlanWorld world(3, {});
  sl_op_t op = Op(SL_OP_ALL_GATHER, 4);
  std::vector<int32_t> send(4, 7), recv(12, 0);
  constexpr sl_operand_t kRecv1{SL_BUFFER_RECV, 1, 0, -1};
  constexpr sl_operand_t kRecv2{SL_BUFFER_RECV, 2, 0, -1};
  const auto receiver = Maker(0, 3, op, 4, 1).Take(1, kRecv1).Lane().Take(2, kRecv2).Done();
  const auto sender = Maker(2, 3, op, 4, 1).Put(0).Done();
  op.send = send.data();
  op.recv = recv.data();
  ASSERT_TRUE(world.Start(0, *receiver, op).ok());
  ASSERT_TRUE(world.Start(2, *sender, op).ok());
  EXPECT_EQ(world.Drive(), "stuck: all_gather #1 lane 0 step 0 round 0 waits for a chunk from rank 1");
  EXPECT_EQ(recv, (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7}));
}

TEST(Run, RefusesAPlanThatUsesAChunkItDoesNotHold) {
  PlanWorld world(2, {});
  sl_op_t op = Op(SL_OP_ALL_GATHER, 4);
  std::vector<int32_t> send(4), recv(8);
  op.send = send.data();
  op.recv = recv.data();
  const auto release = Maker(0, 2, op, 4, 1).Add(MakeStep(SL_STEP_RELEASE, 1, kRecv)).Done();
  ASSERT_TRUE(world.Start(0, *release, op).ok());
  EXPECT_EQ(
      world.Drive(),
      "rank 0 all_gather #1 lane 0 step 0 round 0: the plan uses a chunk that it does not hold, or keeps one; the "
      "algorithm is wrong");
  EXPECT_EQ(world.outcome(0), SL_ERR_INTERNAL);
}

TEST(Run, RefusesAPlanThatKeepsAChunk) {
  PlanWorld world(2, {});
  sl_op_t op = Op(SL_OP_ALL_GATHER, 4);
  std::vector<int32_t> send(4), recv(8);
  op.send = send.data();
  op.recv = recv.data();
  const auto keep = Maker(0, 2, op, 4, 1).Add(MakeStep(SL_STEP_WAIT, 1, kRecv)).Done();
  const auto put = Maker(1, 2, op, 4, 1).Put(0).Done();
  ASSERT_TRUE(world.Start(0, *keep, op).ok());
  ASSERT_TRUE(world.Start(1, *put, op).ok());
  EXPECT_NE(world.Drive(), "");
  EXPECT_EQ(world.outcome(0), SL_ERR_INTERNAL);
}

TEST(Run, WorksInBoundedPieces) {
  PlanWorld world(1, {});
  const uint64_t count = 1 << 20;
  sl_op_t op = Op(SL_OP_ALL_GATHER, count);
  std::vector<int32_t> send(count, 3), recv(count);
  op.send = send.data();
  op.recv = recv.data();
  sl_step_t copy = MakeStep(SL_STEP_COPY, -1, kSend);
  copy.a = kSend;
  copy.dst = kRecv;
  const auto plan = Maker(0, 1, op, 1 << 14, 64).Add(copy).Done();
  ASSERT_TRUE(world.Start(0, *plan, op).ok());
  EXPECT_EQ(world.Drive(), "");
  EXPECT_EQ(recv, send);
  EXPECT_GE(world.polls(), 4u);  // four megabytes, one a poll
}

TEST(Run, SaysOnWhomItWaits) {
  PlanWorld world(2, {});
  sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(4, 1), recv(4);
  kernel::Run* run = nullptr;
  ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &run).ok());
  sl_wait_t wait{};
  EXPECT_EQ(run->Describe(), "all_reduce #1 has not begun");
  EXPECT_EQ(run->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_TRUE(run->moved());
  EXPECT_EQ(wait.peer, 1);
  EXPECT_STREQ(wait.what, "chunk");
  EXPECT_EQ(wait.step, 1u);
  EXPECT_EQ(wait.doorbell, world.net().bell(0));
  EXPECT_EQ(run->Poll(&wait), SL_ERR_AGAIN);
  EXPECT_FALSE(run->moved());
  EXPECT_EQ(run->Describe(), "all_reduce #1 lane 0 step 1 round 0 waits for a chunk from rank 1");
  world.pool(0).Finish(run);
}

TEST(Run, NamesDescriptorsWhereItWaitsForNetworksAlone) {
  const std::array<int32_t, 2> descriptors = {11, 12};
  for (const bool networked : {false, true}) {
    PlanWorld world(
        2, {.networked = networked ? std::vector<uint32_t>{1} : std::vector<uint32_t>{}, .descriptors = descriptors});
    const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
    const auto plan = Exchange(0, op, 4);
    std::vector<int32_t> send(4, 1), recv(4);
    kernel::Run* run = nullptr;
    ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &run).ok());
    sl_wait_t wait{};
    EXPECT_EQ(run->Poll(&wait), SL_ERR_AGAIN);
    EXPECT_EQ(wait.fds, networked ? descriptors.data() : nullptr);
    EXPECT_EQ(wait.fd_count, networked ? 2u : 0u);
    EXPECT_EQ(wait.doorbell, world.net().bell(0));
    world.pool(0).Finish(run);
  }
}

TEST(Run, LeavesRecordsOfWhatItDoes) {
  SetEventMask((1u << SL_EVENT_KIND_COUNT) - 1);
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 32, 5);
  PlanWorld world(2, {});
  const auto plan0 = Exchange(0, op, 16);
  const auto plan1 = Exchange(1, op, 16);
  std::vector<int32_t> send(32, 1), recv0(32), recv1(32);
  ASSERT_TRUE(world.Start(0, *plan0, With(op, send, &recv0)).ok());
  ASSERT_TRUE(world.Start(1, *plan1, With(op, send, &recv1)).ok());
  EXPECT_EQ(world.Drive(), "");
  SetEventMask(0);
  std::vector<uint32_t> kinds(SL_EVENT_KIND_COUNT);
  DrainEventRings(
      [](void* ctx, const EventBatch& batch) {
        for (uint64_t i = 0; i < batch.count; ++i) {
          EXPECT_EQ(batch.records[i].comm_id, 77u);
          EXPECT_EQ(batch.records[i].op_seq, 5u);
          ++static_cast<uint32_t*>(ctx)[batch.records[i].kind];
        }
      },
      kinds.data());
  EXPECT_EQ(kinds[SL_EVENT_STEP], 2u * 2u * 4u);
  EXPECT_EQ(kinds[SL_EVENT_CHUNK_POST], 4u);
  EXPECT_EQ(kinds[SL_EVENT_CHUNK_DONE], 4u);
  EXPECT_EQ(kinds[SL_EVENT_FAULT], 0u);
}

TEST(EngineKernel, DrivesARunAndSetsTheErrorText) {
  PlanWorld world(2, {});
  const sl_op_t op = Op(SL_OP_ALL_REDUCE, 4);
  const auto plan = Exchange(0, op, 4);
  std::vector<int32_t> send(4, 1), recv(4);
  kernel::Run* run = nullptr;
  ASSERT_TRUE(world.pool(0).Start(*plan, With(op, send, &recv), &run).ok());
  const sl_host_kernel_t kernel = EngineKernel();
  EXPECT_EQ(kernel.frame_bytes, 0u);
  sl_wait_t wait{};
  EXPECT_EQ(kernel.run(&run, nullptr, &wait), SL_ERR_AGAIN);
  world.net().pipe(1, 0, 0)->Break(SL_ERR_PEER_LOST);
  EXPECT_EQ(kernel.run(&run, nullptr, &wait), SL_ERR_PEER_LOST);
  EXPECT_EQ(std::string(LastError()), run->status().message());
  world.pool(0).Finish(run);
}

}  // namespace
}  // namespace sl::kernel

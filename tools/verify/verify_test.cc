// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/verify.h"

#include <gtest/gtest.h>

#include "tools/verify/sketch_test_util.h"

namespace sl::verify {
namespace {

constexpr uint64_t kCount = 10;
const sl_operand_t kAll = Recv(0);

// Two ranks exchange their whole inputs and add them up, in two rounds of 6 and 4 elements.
Team Exchange(sl_reduction_t reduction = SL_SUM) {
  const bool scales = reduction == SL_AVG || reduction == SL_PREMUL_SUM;
  std::vector<Sketch> sketches;
  for (int32_t rank = 0; rank < 2; ++rank) {
    const int32_t peer = 1 - rank;
    Sketch& sketch = sketches.emplace_back();
    sketch.desc = MakeDesc(1, kCount, kCount, 6);
    // Scaled before it is sent and kept, so that both ranks join the same two values in the same order.
    sketch.lanes = {{Reserve(peer, kAll),                                                                // 0
                     Reduce(scales ? SL_STEP_A_RAW : 0, Send(0), kNothing, Out(peer), kAll),             // 1
                     Put(peer, kAll),                                                                    // 2
                     Wait(peer, kAll),                                                                   // 3
                     Reduce(SL_STEP_FINAL | (scales ? (rank == 0 ? SL_STEP_A_RAW : SL_STEP_B_RAW) : 0),  // 4
                            rank == 0 ? Send(0) : In(peer), rank == 0 ? In(peer) : Send(0), kAll, kAll),
                     Release(peer, kAll)}};  // 5
  }
  return {MakeOp(SL_OP_ALL_REDUCE, kCount, -1, reduction), std::move(sketches)};
}

// Rank 0 sends to rank 1, which has two lanes: one takes what comes, the other may look at it.
Team TwoLanes(std::vector<sl_step_t> other, uint64_t scratch = 0) {
  std::vector<Sketch> sketches(2);
  for (Sketch& sketch : sketches) sketch.desc = MakeDesc(1, kCount, kCount, kCount);
  sketches[1].desc.send = {0, 0, 0};
  sketches[1].desc.scratch = {scratch, scratch, scratch};
  sketches[1].desc.scratch_bytes = scratch * 4;
  sketches[0].lanes = {{Put(1, kAll, Send(0)), Copy(Send(0), kAll, kAll)}};
  sketches[1].lanes = {{Wait(0, kAll), Copy(In(0), kAll, kAll), Release(0, kAll)}, std::move(other)};
  return {MakeOp(SL_OP_BROADCAST, kCount, 0), std::move(sketches)};
}

TEST(Verify, ProvesTwoRanksThatExchange) {
  for (const sl_reduction_t reduction : {SL_SUM, SL_MAX, SL_AVG, SL_PREMUL_SUM}) {
    for (const bool in_place : {false, true}) {
      Team team = Exchange(reduction);
      team.test().in_place = in_place;
      team.test().determinism = SL_DETERMINISM_WORLD_SIZE;
      const Verdict verdict = team.Check();
      EXPECT_TRUE(verdict.proved()) << ToText(*verdict.counter_example);
      EXPECT_EQ(verdict.determinism, SL_DETERMINISM_WORLD_SIZE);
      EXPECT_EQ(verdict.chunks, 4u);
      EXPECT_EQ(verdict.steps, 2u * 2u * 6u);
    }
  }
}

TEST(Verify, NamesAnInputThatIsMissing) {
  Team team = Exchange();
  team.sketches()[1].lanes[0][4].b = In(0);
  team.sketches()[1].lanes[0][4].a = In(0);
  EXPECT_EQ(team.Text(),
            "wrong value at rank 1 lane 0 step 4 (reduce   recv[0] <- in(0) op in(0), final) round 0 repetition 0\n"
            "  element    recv[0]\n"
            "  holds      send0[0] + send0[0]\n"
            "  should be  send[0] of ranks 0-1, each once\n"
            "  note       went wrong first at rank 1 lane 0 step 4 (reduce   recv[0] <- in(0) op in(0), final) round 0 "
            "repetition 0\n");
}

TEST(Verify, NamesTheFirstElementThatIsWrong) {
  Team team = Exchange();
  // Rank 1 goes on with its own input, in the second round only: elements 6 to 9.
  team.sketches()[1].desc = MakeDesc(2, kCount, 5, 5);
  team.sketches()[0].desc = MakeDesc(2, kCount, 5, 5);
  for (Sketch& sketch : team.sketches()) {
    std::vector<sl_step_t>& lane = sketch.lanes[0];
    std::vector<sl_step_t> second = lane;
    for (sl_step_t& step : second) {
      step.shape.block = 1;
      for (sl_operand_t* operand : {&step.a, &step.b, &step.dst}) {
        if (operand->buffer == SL_BUFFER_SEND || operand->buffer == SL_BUFFER_RECV) operand->block = 1;
      }
    }
    lane.insert(lane.end(), second.begin(), second.end());
  }
  EXPECT_EQ(team.Text(), "");
  team.sketches()[1].lanes[0][7].a.block = 0;
  EXPECT_EQ(
      team.Text(),
      "wrong value at rank 0 lane 0 step 10 (reduce   recv[1] <- send[1] op in(1), final) round 0 repetition 0\n"
      "  element    recv[5]\n"
      "  holds      send0[5] + send1[0]\n"
      "  should be  send[5] of ranks 0-1, each once\n"
      "  note       went wrong first at rank 0 lane 0 step 10 (reduce   recv[1] <- send[1] op in(1), final) round 0 "
      "repetition 0\n");
}

TEST(Verify, FindsResultsThatNobodyWrites) {
  Team team = Exchange();
  team.sketches()[0].desc.rounds = 1;
  team.sketches()[1].desc.rounds = 1;
  EXPECT_EQ(team.Text(),
            "wrong value at rank 0\n"
            "  element    recv[6]\n"
            "  holds      nothing, no step writes it\n"
            "  should be  send[6] of ranks 0-1, each once\n");
}

TEST(Verify, FindsReadsBeforeWrites) {
  Team team = Exchange();
  team.sketches()[0].lanes[0][4].a = Recv(0);
  EXPECT_EQ(
      team.Text(),
      "read before write at rank 0 lane 0 step 4 (reduce   recv[0] <- recv[0] op in(1), final) round 0 repetition 0\n"
      "  element    recv[0]\n"
      "  holds      a reads it, and nothing has written it\n"
      "  should be  a step before this one that writes it\n");
  // In place it is the rank's own input.
  team.test().in_place = true;
  EXPECT_EQ(team.Text(), "");
}

TEST(Verify, FindsChunksSentUnwritten) {
  Team team = Exchange();
  team.sketches()[1].lanes[0].erase(team.sketches()[1].lanes[0].begin() + 1);
  EXPECT_EQ(team.Text(),
            "read before write at rank 1 lane 0 step 1 (put      rank 0) round 0 repetition 0\n"
            "  element    outbox[0]\n"
            "  holds      only 0 of the chunk's 6 elements are written\n"
            "  should be  every element of a chunk to be written before it is sent\n");
}

TEST(Verify, FindsChunksNotHeld) {
  Team without_reserve = Exchange();
  without_reserve.sketches()[0].lanes[0].erase(without_reserve.sketches()[0].lanes[0].begin());
  EXPECT_EQ(without_reserve.Check().counter_example->fault, Fault::kChunk);
  EXPECT_EQ(without_reserve.Check().counter_example->wants, "a RESERVE before this step");

  Team without_wait = Exchange();
  without_wait.sketches()[0].lanes[0].erase(without_wait.sketches()[0].lanes[0].begin() + 3);
  EXPECT_EQ(without_wait.Check().counter_example->fault, Fault::kChunk);
  EXPECT_EQ(without_wait.Check().counter_example->wants, "a WAIT before this step");

  Team released_twice = Exchange();
  released_twice.sketches()[0].lanes[0].push_back(Release(1, kAll));
  EXPECT_EQ(released_twice.Check().counter_example->fault, Fault::kChunk);

  Team put_twice = Exchange();
  put_twice.sketches()[0].lanes[0].insert(put_twice.sketches()[0].lanes[0].begin() + 3, Put(1, kAll));
  EXPECT_EQ(put_twice.Check().counter_example->fault, Fault::kChunk);
}

TEST(Verify, FindsChunksThatAreKept) {
  Team team = Exchange();
  for (Sketch& sketch : team.sketches()) {
    sketch.desc = MakeDesc(1, kCount, kCount, kCount);
    sketch.lanes[0].pop_back();
  }
  EXPECT_EQ(team.Text(),
            "chunk not held at rank 1 lane 0 step 5 (the end of the lane) round 1 repetition 0\n"
            "  holds      the lane ends with a chunk of rank 0 in hand\n"
            "  should be  a RELEASE for every WAIT\n");
}

TEST(Verify, FindsLengthsThatDiffer) {
  Team team = Exchange();
  team.sketches()[1].desc.chunk = 5;
  EXPECT_EQ(team.Text(),
            "length mismatch at rank 1 lane 0 step 3 (wait     rank 0) round 0 repetition 0\n"
            "  holds      the chunk that rank 0 sent has 6 elements\n"
            "  should be  5 elements, the part of this step\n"
            "  note       it was sent by rank 0 lane 0 step 2 (put      rank 1) round 0 repetition 0\n");
}

TEST(Verify, FindsWhoWaitsForEachOther) {
  Team team = Exchange();
  for (Sketch& sketch : team.sketches())
    std::rotate(sketch.lanes[0].begin(), sketch.lanes[0].begin() + 3, sketch.lanes[0].end());
  EXPECT_EQ(team.Text(),
            "deadlock at rank 0 lane 0 step 0 (wait     rank 1) round 0 repetition 0\n"
            "  holds      2 lanes wait for each other\n"
            "  should be  an order of steps that ends with 1 chunks on a link\n"
            "  note       rank 0 lane 0 step 0 (wait     rank 1) round 0 waits for chunk 1 of rank 1\n"
            "  note       rank 1 lane 0 step 0 (wait     rank 0) round 0 waits for chunk 1 of rank 0\n");
}

// Every rank holds a chunk of the previous one while it asks for room: right with two credits, stuck with one.
Team HoldingRing(uint32_t credits) {
  std::vector<Sketch> sketches;
  for (int32_t rank = 0; rank < 3; ++rank) {
    const int32_t next = (rank + 1) % 3, previous = (rank + 2) % 3;
    Sketch& sketch = sketches.emplace_back();
    sketch.desc = MakeDesc(3, 3 * kCount, kCount, kCount);
    sketch.desc.send = {kCount, kCount, kCount};
    sketch.desc.credits = credits;
    const auto own = static_cast<uint32_t>(rank), before = static_cast<uint32_t>(previous),
               last = static_cast<uint32_t>(next);
    sketch.lanes = {{Copy(Send(0), Recv(own), Recv(own)), Put(next, Recv(own), Send(0)), Wait(previous, Recv(before)),
                     Reserve(next, Recv(before)), Copy(In(previous), Recv(before), Recv(before), Out(next)),
                     Put(next, Recv(before)), Release(previous, Recv(before)), Wait(previous, Recv(last)),
                     Copy(In(previous), Recv(last), Recv(last)), Release(previous, Recv(last))}};
  }
  return {MakeOp(SL_OP_ALL_GATHER, kCount), std::move(sketches)};
}

TEST(Verify, HoldsPlansToTheCreditsTheyDeclare) {
  for (const bool in_place : {false, true}) {
    Team enough = HoldingRing(2);
    enough.test().in_place = in_place;
    EXPECT_EQ(enough.Text(), "");
  }
  const Verdict stuck = HoldingRing(1).Check();
  ASSERT_FALSE(stuck.proved());
  EXPECT_EQ(stuck.counter_example->fault, Fault::kDeadlock);
  EXPECT_EQ(stuck.counter_example->holds, "3 lanes wait for each other");
  EXPECT_EQ(stuck.counter_example->notes.size(), 3u);
  EXPECT_EQ(stuck.counter_example->notes[0],
            "rank 0 lane 0 step 3 (reserve  rank 1) round 0 waits for room at rank 1, which holds 1 of its 1 chunks");
}

TEST(Verify, FindsWaitsForChunksThatNeverCome) {
  Team team = Exchange();
  std::vector<sl_step_t>& lane = team.sketches()[1].lanes[0];
  lane.erase(lane.begin(), lane.begin() + 3);
  EXPECT_EQ(team.Text(),
            "deadlock at rank 0 lane 0 step 3 (wait     rank 1) round 0 repetition 0\n"
            "  holds      it waits for chunk 1 of rank 1\n"
            "  should be  rank 1 to send it; it sends nothing on link lane 0\n"
            "  note       rank 0 lane 0 step 3 (wait     rank 1) round 0 waits for chunk 1 of rank 1\n");
}

TEST(Verify, FindsChunksThatAreNeverTaken) {
  Team team = Exchange();
  for (Sketch& sketch : team.sketches()) sketch.desc = MakeDesc(1, kCount, kCount, kCount);
  team.sketches()[0].lanes[0].push_back(Put(1, kAll, Send(0)));
  EXPECT_EQ(team.Text(),
            "chunk left over at rank 0 lane 0 step 6 (put      rank 1 <- send[0]) round 0 repetition 0\n"
            "  holds      1 of the 2 chunks to rank 1 on link lane 0 are never taken\n"
            "  should be  a WAIT and a RELEASE of rank 1 for each of them\n");
}

TEST(Verify, FindsRangesOutsideTheBuffer) {
  Team team = Exchange();
  // The plans are those of ten elements.
  (void)team.Check();
  for (RankPlan& part : team.test().ranks) part.op.count = 7;
  const Verdict verdict = Verify(team.test());
  ASSERT_FALSE(verdict.proved());
  EXPECT_EQ(ToText(*verdict.counter_example),
            "overrun at rank 0 lane 0 step 1 (reduce   out(1) <- send[0]) round 1 repetition 0\n"
            "  element    send[6]\n"
            "  holds      a reads 4 elements from here\n"
            "  should be  a range inside the buffer\n");
}

TEST(Verify, FindsOperandsThatOverlap) {
  Sketch sketch;
  sketch.desc = MakeDesc(2, kCount, 6, 6);
  sketch.desc.send = {0, kCount, kCount};
  sketch.desc.recv = {3, kCount, kCount};
  sketch.desc.chunk = 7;
  sketch.lanes = {{Copy(Send(0), Recv(0), Recv(1)), Copy(Send(0), Recv(1), Recv(1))}};
  Team team(MakeOp(SL_OP_BROADCAST, kCount, 0), {sketch});
  EXPECT_EQ(team.Check().counter_example->fault, Fault::kValue);  // element 3 holds element 0
  team.test().in_place = true;
  EXPECT_EQ(team.Text(),
            "overlap at rank 0 lane 0 step 1 (copy     recv[1] <- send[0]) round 0 repetition 0\n"
            "  element    recv[3]\n"
            "  holds      a and dst, 7 elements each, overlap\n"
            "  should be  ranges that are apart, or a target that is its source exactly\n");
}

TEST(Verify, HoldsFlagsToWhatTheyMean) {
  const auto change = [](sl_reduction_t reduction, size_t step, uint32_t flags) {
    Team team = Exchange(reduction);
    team.sketches()[0].lanes[0][step].flags ^= flags;
    return team.Text();
  };
  EXPECT_EQ(
      change(SL_PREMUL_SUM, 1, SL_STEP_A_RAW),
      "wrong flag at rank 1 lane 0 step 4 (reduce   recv[0] <- in(0) op send[0] raw, final) round 0 repetition 0\n"
      "  element    inbox[0]\n"
      "  holds      a holds send0[0]\n"
      "  should be  a contribution that was scaled, or the RAW flag on it\n");
  EXPECT_EQ(
      change(SL_PREMUL_SUM, 4, SL_STEP_B_RAW),
      "wrong flag at rank 0 lane 0 step 4 (reduce   recv[0] <- send[0] raw op in(1) raw, final) round 0 repetition 0\n"
      "  element    inbox[0]\n"
      "  holds      b holds scaled send1[0]\n"
      "  should be  this rank's own input, as the RAW flag says\n");
  EXPECT_EQ(change(SL_AVG, 1, SL_STEP_FINAL),
            "wrong flag at rank 0 lane 0 step 1 (reduce   out(1) <- send[0] raw, final) round 0 repetition 0\n"
            "  holds      what FINAL finishes is scaled send0[0]\n"
            "  should be  2 scaled contributions, not finished before\n");
  EXPECT_EQ(change(SL_AVG, 4, SL_STEP_FINAL),
            "wrong value at rank 0 lane 0 step 4 (reduce   recv[0] <- send[0] raw op in(1)) round 0 repetition 0\n"
            "  element    recv[0]\n"
            "  holds      scaled send0[0] + scaled send1[0]\n"
            "  should be  send[0] of ranks 0-1, each once, scaled, and the result finished\n");
  EXPECT_NE(change(SL_AVG, 1, SL_STEP_B_RAW), "");
  // Where nothing is scaled they mean nothing.
  EXPECT_EQ(change(SL_SUM, 1, SL_STEP_A_RAW), "");
  EXPECT_EQ(change(SL_MAX, 4, SL_STEP_FINAL), "");
}

TEST(Verify, HoldsOrderToTheDeclaredClass) {
  Team team = Exchange();
  sl_step_t& reduce = team.sketches()[1].lanes[0][4];
  std::swap(reduce.a, reduce.b);
  for (const uint32_t declared : {SL_DETERMINISM_NONE, SL_DETERMINISM_RUN}) {
    team.test().determinism = declared;
    const Verdict verdict = team.Check();
    EXPECT_TRUE(verdict.proved());
    EXPECT_EQ(verdict.determinism, SL_DETERMINISM_RUN);
  }
  team.test().determinism = SL_DETERMINISM_RANK;
  EXPECT_EQ(team.Text(),
            "wrong order at rank 1\n"
            "  element    recv[0]\n"
            "  holds      send1[0] + send0[0]\n"
            "  should be  send0[0] + send1[0], as on rank 0: the algorithm declares equal bits on all ranks\n");
  // Integers have the same bits in any order.
  for (uint32_t rank = 0; rank < 2; ++rank) team.op(rank).datatype = SL_INT32;
  EXPECT_EQ(team.Text(), "");
}

TEST(Verify, WantsAlignedTreesForEveryNumberOfRanks) {
  Team team = Exchange();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    sl_step_t& reduce = team.sketches()[rank].lanes[0][4];
    std::swap(reduce.a, reduce.b);
  }
  team.test().determinism = SL_DETERMINISM_RANK;
  EXPECT_EQ(team.Check().determinism, SL_DETERMINISM_RANK);
  team.test().determinism = SL_DETERMINISM_WORLD_SIZE;
  EXPECT_EQ(team.Check().counter_example->fault, Fault::kOrder);
}

TEST(Verify, FindsRacesBetweenLanes) {
  // The second lane reads what the first may not have written yet; in the symbolic execution it has.
  Team team = TwoLanes({Copy(kAll, Scratch(0), kAll)}, kCount);
  EXPECT_EQ(
      team.Text(),
      "race at rank 1 lane 1 step 0 (copy     scratch[0] <- recv[0]) round 0 repetition 0\n"
      "  element    recv[0]\n"
      "  holds      this step reads it, and lane 0 step 1 (copy     recv[0] <- in(0)) round 0 repetition 0 writes it\n"
      "  should be  a chunk that orders the two steps, or one lane for both\n");
  // Lanes that touch different elements are free.
  EXPECT_EQ(TwoLanes({}).Text(), "");
}

TEST(Verify, TakesChunksForOrderBetweenLanes) {
  // Lane 0 of rank 1 tells rank 0 that it has written; rank 0 answers to lane 1, which then reads.
  Team team = TwoLanes({Wait(0, kAll, 1), Copy(kAll, Scratch(0), kAll), Release(0, kAll, 1)}, kCount);
  team.sketches()[1].lanes[0].push_back(Put(0, kAll, kAll));
  for (const sl_step_t& step : {Wait(1, kAll), Release(1, kAll), Put(1, kAll, Send(0), 1)}) {
    team.sketches()[0].lanes[0].push_back(step);
  }
  EXPECT_EQ(team.Text(), "");
  // A credit is no such order: with more of them the second PUT would not wait for the RELEASE.
  Team credit = TwoLanes({Copy(kAll, Scratch(0), kAll)}, kCount);
  EXPECT_EQ(credit.Check().counter_example->fault, Fault::kRace);
}

TEST(Verify, LetsLanesCopyWhatLiesInPlaceOntoItself) {
  // In place rank 0's copy writes nothing, so another lane may read at the same time.
  Team team = TwoLanes({});
  team.sketches()[0].lanes = {{Put(1, kAll, Send(0))}, {Copy(Send(0), kAll, kAll)}};
  for (const bool in_place : {false, true}) {
    team.test().in_place = in_place;
    EXPECT_EQ(team.Text(), "");
  }
}

TEST(Verify, RefusesPlansThatDoNotBelongTogether) {
  Team team = Exchange();
  (void)team.Check();
  std::swap(team.test().ranks[0].plan, team.test().ranks[1].plan);
  EXPECT_EQ(ToText(*Verify(team.test()).counter_example),
            "mismatch at rank 0\n  holds      a plan of rank 1 of 2\n  should be  a plan of rank 0 of 2\n");
  std::swap(team.test().ranks[0].plan, team.test().ranks[1].plan);
  team.op(1).count = 9;
  EXPECT_EQ(ToText(*Verify(team.test()).counter_example),
            "mismatch at rank 1\n  holds      all_reduce of 9 float32, sum\n"
            "  should be  all_reduce of 10 float32, sum, as the ranks before it call\n");
  team.op(1).count = 10;
  team.test().ranks[1].plan = nullptr;
  EXPECT_EQ(Verify(team.test()).counter_example->fault, Fault::kMismatch);
  EXPECT_EQ(Verify(Case{}).counter_example->fault, Fault::kMismatch);
}

TEST(Verify, LeavesRanksOutOfASendAndItsReceive) {
  std::vector<Sketch> sketches(3);
  for (Sketch& sketch : sketches) sketch.desc = MakeDesc(1, 0, 0, kCount);
  sketches[2].desc.send = sketches[0].desc.recv = {kCount, kCount, kCount};
  sketches[2].desc.rounds = sketches[0].desc.rounds = 1;
  sketches[2].lanes = {{Put(0, Send(0), Send(0))}};
  sketches[0].lanes = {{Wait(2, kAll), Copy(In(2), kAll, kAll), Release(2, kAll)}};
  sl_op_t send = MakeOp(SL_OP_SEND, kCount), recv = MakeOp(SL_OP_RECV, kCount);
  send.peer = 0;
  recv.peer = 2;
  const auto sender = sketches[2].Build(2, 3, send), receiver = sketches[0].Build(0, 3, recv);
  ASSERT_TRUE(sender.ok() && receiver.ok()) << sender.status().message() << receiver.status().message();
  Case test;
  test.ranks = {{receiver.value().get(), recv}, {}, {sender.value().get(), send}};
  const Verdict verdict = Verify(test);
  EXPECT_TRUE(verdict.proved()) << ToText(*verdict.counter_example);
}

TEST(Verify, GivesUpAtTheLimitOfSteps) {
  Team team = Exchange();
  team.test().step_limit = 5;
  EXPECT_EQ(team.Check().counter_example->fault, Fault::kLimit);
}

// Rounds and elements beyond the data cost nothing.
TEST(Verify, CostsStepsNotElements) {
  Team team = Exchange();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    team.op(rank).count = uint64_t{1} << 30;
    team.sketches()[rank].desc = MakeDesc(1, uint64_t{1} << 30, uint64_t{1} << 30, 1 << 18);
    team.sketches()[rank].desc.rounds = uint64_t{1} << 38;
  }
  const Verdict verdict = team.Check();
  EXPECT_TRUE(verdict.proved());
  EXPECT_EQ(verdict.steps, 2u * 4096u * 6u);
}

}  // namespace
}  // namespace sl::verify

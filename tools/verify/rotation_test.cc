// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rotation.h"

#include <gtest/gtest.h>

#include <functional>

#include "tools/verify/rank_set.h"
#include "tools/verify/sketch_test_util.h"

namespace sl::verify {
namespace {

constexpr uint32_t kRanks = 4;
const sl_operand_t kAll = Recv(0);

// A broadcast down a chain that begins at the root, of which `change` may spoil one rank.
PlanSet Chain(uint32_t root, const std::function<void(uint32_t rank, Sketch*)>& change = nullptr) {
  PlanSet set;
  const sl_op_t op = MakeOp(SL_OP_BROADCAST, 10, static_cast<int32_t>(root));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const uint32_t place = (rank + kRanks - root) % kRanks;
    const auto previous = static_cast<int32_t>((rank + kRanks - 1) % kRanks);
    const auto next = static_cast<int32_t>((rank + 1) % kRanks);
    const sl_operand_t source = place == 0 ? Send(0) : In(previous);
    Sketch sketch;
    sketch.desc = MakeDesc(1, 10, 10, 6);
    if (place != 0) sketch.desc.send = {0, 0, 0};
    auto& lane = sketch.lanes.emplace_back();
    if (place != 0) lane.push_back(Wait(previous, kAll));
    if (place + 1 != kRanks) lane.push_back(Put(next, kAll, source));
    lane.push_back(Copy(source, kAll, kAll));
    if (place != 0) lane.push_back(Release(previous, kAll));
    if (change) change(rank, &sketch);
    auto plan = sketch.Build(rank, kRanks, op);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    set.plans.push_back(plan.Take());
    set.test.ranks.push_back({set.plans.back().get(), op});
  }
  return set;
}

TEST(Rotation, IsFoundWherePlansAreTheSameFromEveryRoot) {
  const PlanSet base = Chain(0);
  for (uint32_t root = 0; root < kRanks; ++root) {
    const PlanSet turned = Chain(root);
    EXPECT_TRUE(Verify(turned.test).proved());
    for (uint32_t distance = 0; distance < kRanks; ++distance) {
      EXPECT_EQ(IsRotation(base.test, turned.test, *RotationOfRoots(base.test, distance)), distance == root);
    }
  }
}

TEST(Rotation, IsNotFoundWhereOneRankDiffers) {
  const PlanSet base = Chain(0);
  const std::function<void(Sketch*)> changes[] = {
      [](Sketch* sketch) { sketch->desc.chunk = 7; },
      [](Sketch* sketch) { sketch->desc.credits = 2; },
      [](Sketch* sketch) { sketch->lanes[0].pop_back(); },
      [](Sketch* sketch) { sketch->lanes[0][0].peer = 3; },
      [](Sketch* sketch) { sketch->lanes[0][0].lane = 1; },
      [](Sketch* sketch) { sketch->lanes[0][1].a = In(3); },
      [](Sketch* sketch) { std::swap(sketch->lanes[0][1], sketch->lanes[0][2]); },
      [](Sketch* sketch) { sketch->lanes.emplace_back(); },
  };
  for (const auto& change : changes) {
    const PlanSet spoiled = Chain(1, [&](uint32_t rank, Sketch* sketch) {
      if (rank == 2) change(sketch);
    });
    EXPECT_FALSE(IsRotation(base.test, spoiled.test, *RotationOfRoots(base.test, 1)));
  }
}

// A gather in one hop: the root takes every rank's block of `block` elements.
PlanSet Star(uint32_t root, uint64_t block, uint32_t modulus = kRanks) {
  PlanSet set;
  const sl_op_t op = MakeOp(SL_OP_GATHER, 10, static_cast<int32_t>(root));
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    Sketch sketch;
    sketch.desc = MakeDesc(modulus, 10, 10, 6);
    sketch.desc.recv = {block, block, rank == root ? block * kRanks : 0};
    auto& lane = sketch.lanes.emplace_back();
    if (rank != root) lane.push_back(Put(static_cast<int32_t>(root), Send(0), Send(0)));
    for (uint32_t k = 1; k < kRanks && rank == root; ++k) {
      const uint32_t from = (root + k) % kRanks;
      const auto peer = static_cast<int32_t>(from);
      lane.push_back(Wait(peer, Recv(from)));
      lane.push_back(Copy(In(peer), Recv(from), Recv(from)));
      lane.push_back(Release(peer, Recv(from)));
    }
    if (rank == root) lane.push_back(Copy(Send(0), Recv(root), Recv(root)));
    auto plan = sketch.Build(rank, kRanks, op);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    set.plans.push_back(plan.Take());
    set.test.ranks.push_back({set.plans.back().get(), op});
  }
  return set;
}

TEST(Rotation, MovesBlocksOfRanks) {
  const PlanSet base = Star(0, 10);
  EXPECT_TRUE(Verify(base.test).proved());
  for (uint32_t root = 1; root < kRanks; ++root) {
    const PlanSet turned = Star(root, 10);
    EXPECT_TRUE(Verify(turned.test).proved());
    EXPECT_TRUE(IsRotation(base.test, turned.test, *RotationOfRoots(base.test, root)));
    EXPECT_FALSE(IsRotation(base.test, turned.test, *RotationOfRoots(base.test, root - 1)));
  }
}

TEST(Rotation, IsNoneWhereBlocksAreNotThoseOfRanks) {
  EXPECT_FALSE(RotationOfRoots(Star(0, 9).test, 1));
  EXPECT_FALSE(RotationOfRoots(Star(0, 10, kRanks + 1).test, 1));
}

// Every rank hands its input to the next one round and round: an all-gather, or whatever `op` calls it.
PlanSet Circle(const sl_op_t& op, const std::function<void(uint32_t rank, Sketch*)>& change = nullptr) {
  PlanSet set;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const auto previous = static_cast<int32_t>((rank + kRanks - 1) % kRanks);
    const auto next = static_cast<int32_t>((rank + 1) % kRanks);
    const uint32_t first = (rank + kRanks - 1) % kRanks;
    Sketch sketch;
    sketch.desc = MakeDesc(kRanks, 10, 10, 6);
    sketch.desc.recv.total = 10 * kRanks;
    sketch.desc.credits = 2;
    sketch.lanes = {{Put(next, Send(0), Send(0)), Copy(Send(0), Recv(rank), Send(0)), Repeat(4, kRanks - 2),
                     Wait(previous, Recv(first, -1)), Copy(In(previous), Recv(first, -1), Recv(first, -1)),
                     Put(next, Recv(first, -1), In(previous)), Release(previous, Recv(first, -1)),
                     Wait(previous, Recv((rank + 1) % kRanks)),
                     Copy(In(previous), Recv((rank + 1) % kRanks), Recv((rank + 1) % kRanks)),
                     Release(previous, Recv((rank + 1) % kRanks))}};
    if (change) change(rank, &sketch);
    auto plan = sketch.Build(rank, kRanks, op);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    set.plans.push_back(plan.Take());
    set.test.ranks.push_back({set.plans.back().get(), op});
  }
  return set;
}

TEST(Rotation, FoldsRanksThatDoTheSame) {
  const PlanSet circle = Circle(MakeOp(SL_OP_ALL_GATHER, 10));
  EXPECT_TRUE(Verify(circle.test).proved());
  const std::optional<Case> folded = FoldRanks(circle.test);
  ASSERT_TRUE(folded);
  EXPECT_TRUE(folded->folds.ranks);
  EXPECT_EQ(folded->ranks[0].plan, circle.plans[0].get());
  EXPECT_EQ(folded->ranks[1].plan, nullptr);
}

TEST(Rotation, FoldsNoRanksWhereOneDiffers) {
  for (uint32_t changed = 0; changed < kRanks; ++changed) {
    const PlanSet circle = Circle(MakeOp(SL_OP_ALL_GATHER, 10), [&](uint32_t rank, Sketch* sketch) {
      if (rank == changed) std::swap(sketch->lanes[0][0], sketch->lanes[0][1]);
    });
    EXPECT_TRUE(Verify(circle.test).proved());  // still right
    EXPECT_FALSE(FoldRanks(circle.test));
  }
}

TEST(Rotation, IsForOperationsThatTreatRanksAlikeOrNameOneRoot) {
  const PlanSet base = Chain(0);
  const auto of_roots = [&](sl_op_kind_t kind) {
    Case test = base.test;
    for (RankPlan& part : test.ranks) part.op.kind = kind;
    return RotationOfRoots(test, 1).has_value();
  };
  EXPECT_TRUE(of_roots(SL_OP_BROADCAST));
  EXPECT_TRUE(of_roots(SL_OP_REDUCE));
  EXPECT_TRUE(of_roots(SL_OP_SEND));
  EXPECT_FALSE(of_roots(SL_OP_ALL_REDUCE));
  EXPECT_FALSE(of_roots(SL_OP_ALL_TO_ALL));
  for (const sl_op_kind_t kind : {SL_OP_BROADCAST, SL_OP_REDUCE, SL_OP_GATHER, SL_OP_SCATTER, SL_OP_SEND}) {
    EXPECT_FALSE(RotationOfRanks(MakeOp(kind, 10), *base.plans[0]));
  }
  EXPECT_TRUE(RotationOfRanks(MakeOp(SL_OP_REDUCE_SCATTER, 10), *base.plans[0])->moves_send);
  EXPECT_TRUE(RotationOfRanks(MakeOp(SL_OP_ALL_GATHER, 10), *base.plans[0])->moves_recv);
}

}  // namespace
}  // namespace sl::verify

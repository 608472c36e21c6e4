// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/rotation.h"

#include <gtest/gtest.h>

#include <functional>

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
      EXPECT_EQ(IsRotation(base, turned, distance), distance == root);
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
    EXPECT_FALSE(IsRotation(base, spoiled, 1));
  }
}

TEST(Rotation, IsForOperationsWhoseResultsNameNoRank) {
  EXPECT_TRUE(CanRotate(SL_OP_BROADCAST));
  EXPECT_TRUE(CanRotate(SL_OP_REDUCE));
  EXPECT_TRUE(CanRotate(SL_OP_SEND));
  EXPECT_FALSE(CanRotate(SL_OP_GATHER));
  EXPECT_FALSE(CanRotate(SL_OP_SCATTER));
}

}  // namespace
}  // namespace sl::verify

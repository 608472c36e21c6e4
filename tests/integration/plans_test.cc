// SPDX-License-Identifier: Apache-2.0
//
// Every plan of algo-ring, run by the engine and checked element by element, on links with no more room than the plan
// says it needs.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/engine/reference_reduce_test_util.h"
#include "kernel/plan/signature.h"
#include "sdk/datatype.h"
#include "tests/integration/plan_case.h"

namespace sl::kernel {
namespace {

constexpr const char* kFamilies[] = {"ring", "tree", "direct"};
// With chunks of 256 bytes, that is 32 int64: nothing, less than a block, primes, exact multiples, many rounds.
constexpr uint64_t kCounts[] = {0, 1, 2, 7, 16, 31, 32, 33, 97, 256, 1009};

bool HasRoot(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

class Plans : public testing::Test {
 protected:
  // Every count, root and placement of one operation for one family and number of ranks.
  int RunAll(PlanCase test) {
    int cases = 0;
    const uint32_t roots = HasRoot(test.kind) ? test.ranks : 1;
    for (uint64_t count : kCounts) {
      for (uint32_t root = 0; root < roots; ++root) {
        for (bool in_place : {false, true}) {
          test.count = count;
          test.root = HasRoot(test.kind) ? static_cast<int32_t>(root) : -1;
          test.in_place = in_place;
          test.first = static_cast<uint32_t>(cases);
          const std::string failure = RunCase(module_, test);
          EXPECT_EQ(failure, "") << test.ToString();
          if (!failure.empty()) return cases;
          ++cases;
        }
      }
    }
    return cases;
  }

  // "" also when the family does not offer the operation.
  std::string RunServed(const PlanCase& test) { return IsServed(module_, test) ? RunCase(module_, test) : ""; }

  RingModule module_;
};

TEST_F(Plans, ComputeEveryCollectiveForUpToNineRanks) {
  int cases = 0;
  for (const char* family : kFamilies) {
    for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        PlanCase test;
        test.family = family;
        test.ranks = ranks;
        test.kind = kind;
        if (IsServed(module_, test)) cases += RunAll(test);
      }
    }
  }
  // 5 + 3 + 6 operations; those with a root once for each of 1 + 2 + … + 9 roots.
  EXPECT_EQ(cases, 2 * 11 * ((3 + 1 + 4) * 9 + (2 + 2 + 2) * 45));
}

TEST_F(Plans, ServeEveryTypeAndReduction) {
  for (const char* family : kFamilies) {
    for (uint32_t ranks : {1u, 3u, 6u}) {
      for (sl_datatype_t datatype = 0; datatype < SL_DATATYPE_COUNT; ++datatype) {
        for (sl_reduction_t reduction = 0; reduction < SL_REDUCTION_COUNT; ++reduction) {
          for (sl_op_kind_t kind : {SL_OP_ALL_REDUCE, SL_OP_REDUCE_SCATTER, SL_OP_REDUCE}) {
            PlanCase test{family, ranks, kind, datatype, reduction, 300, kind == SL_OP_REDUCE ? 0 : -1};
            if (!IsServed(module_, test)) continue;
            for (bool in_place : {false, true}) {
              test.in_place = in_place;
              ASSERT_EQ(RunCase(module_, test), "") << test.ToString();
            }
          }
        }
      }
    }
  }
}

TEST_F(Plans, MoveEveryType) {
  for (sl_datatype_t datatype = 0; datatype < SL_DATATYPE_COUNT; ++datatype) {
    for (sl_op_kind_t kind : {SL_OP_ALL_GATHER, SL_OP_BROADCAST, SL_OP_ALL_TO_ALL, SL_OP_GATHER, SL_OP_SCATTER}) {
      for (const char* family : kFamilies) {
        const PlanCase test{family, 4, kind, datatype, SL_SUM, 333, HasRoot(kind) ? 1 : -1};
        EXPECT_EQ(RunServed(test), "") << test.ToString();
      }
    }
  }
}

TEST_F(Plans, KeepOperationsStartedTogetherApart) {
  for (const char* family : kFamilies) {
    for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
      PlanCase test{family, 5, kind, SL_INT32, SL_SUM, 211, HasRoot(kind) ? 2 : -1};
      test.repeats = 4;
      for (test.first = 0; test.first < 20; test.first += 3) {
        EXPECT_EQ(RunServed(test), "") << test.ToString();
      }
    }
  }
}

TEST_F(Plans, WorkOnManyRanks) {
  for (const char* family : kFamilies) {
    for (uint32_t ranks : {17u, 32u, 61u}) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        const PlanCase test{family, ranks, kind, SL_INT32, SL_SUM, 1000, HasRoot(kind) ? 16 : -1};
        EXPECT_EQ(RunServed(test), "") << test.ToString();
      }
    }
  }
}

// Random floats: the sum depends on the order, so equal bits mean equal order.
TEST_F(Plans, GiveAllRanksTheSameBits) {
  for (const char* family : kFamilies) {
    for (uint32_t ranks = 2; ranks <= 9; ++ranks) {
      const uint64_t count = 1000;
      PlanCase test{family, ranks, SL_OP_ALL_REDUCE, SL_FLOAT32, SL_SUM, count};
      PlanWorld world(ranks, {256, 2, true});
      std::vector<std::unique_ptr<Plan>> plans;
      std::vector<std::vector<float>> data(ranks, std::vector<float>(count));
      uint32_t seed = 1;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        for (float& value : data[rank]) {
          seed = seed * 1664525u + 1013904223u;
          value = std::ldexp(static_cast<float>(seed >> 8), static_cast<int>(seed % 7) - 24);
        }
        plans.push_back(RankAlgorithm(module_, family, ShapeOf(rank, ranks, 256)).MakePlan(OpOf(test)).Take());
        sl_op_t op = OpOf(test);
        op.send = op.recv = data[rank].data();
        ASSERT_TRUE(world.Start(rank, *plans[rank], op).ok());
      }
      ASSERT_EQ(world.Drive(), "");
      for (uint32_t rank = 1; rank < ranks; ++rank) {
        // No NaN and no zero of either sign occurs, so equal values are equal bits.
        EXPECT_EQ(data[rank], data[0]) << family << ranks;
      }
    }
  }
}

TEST_F(Plans, SendAndReceiveOnTheirOwnLinkLane) {
  for (uint64_t count : kCounts) {
    PlanWorld world(3, {256, 1, true});
    std::vector<int64_t> source(count, 5);
    std::vector<int64_t> target(count, -1);
    sl_op_t send = OpOf({"direct", 3, SL_OP_SEND, SL_INT64, SL_SUM, count});
    send.peer = 2;
    send.send = source.data();
    sl_op_t recv = send;
    recv.kind = SL_OP_RECV;
    recv.peer = 0;
    recv.recv = target.data();
    auto from = RankAlgorithm(module_, "direct", ShapeOf(0, 3, 256)).MakePlan(send);
    auto to = RankAlgorithm(module_, "direct", ShapeOf(2, 3, 256)).MakePlan(recv);
    ASSERT_TRUE(from.ok() && to.ok());
    ASSERT_TRUE(world.Start(2, *to.value(), recv).ok());
    ASSERT_TRUE(world.Start(0, *from.value(), send).ok());
    EXPECT_EQ(world.Drive(), "");
    EXPECT_EQ(target, source);
    EXPECT_EQ(world.net().pipe(0, 2, 0)->posted(), 0u);
    EXPECT_EQ(world.net().pipe(0, 2, 1)->posted() != 0, count != 0);
  }
}

// Why rings declare two credits; and that a plan which waits for itself is found and named here.
TEST_F(Plans, OfRingsWaitForThemselvesOnOneSlot) {
  const PlanCase test{"ring", 3, SL_OP_ALL_REDUCE, SL_INT64, SL_SUM, 96};
  PlanWorld world(3, {256, 1, true});
  std::vector<std::vector<int64_t>> data(3, std::vector<int64_t>(96));
  std::vector<std::unique_ptr<Plan>> plans;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    plans.push_back(RankAlgorithm(module_, "ring", ShapeOf(rank, 3, 256)).MakePlan(OpOf(test)).Take());
    sl_op_t op = OpOf(test);
    op.send = op.recv = data[rank].data();
    ASSERT_TRUE(world.Start(rank, *plans[rank], op).ok());
  }
  EXPECT_EQ(
      world.Drive(),
      "stuck: all_reduce #1 lane 0 step 5 round 0 waits for room at rank 1; all_reduce #1 lane 0 step 5 round 0 waits "
      "for room at rank 2; all_reduce #1 lane 0 step 5 round 0 waits for room at rank 0");
}

TEST_F(Plans, RefuseToSendToTheOwnRank) {
  sl_op_t op = OpOf({"direct", 3, SL_OP_SEND, SL_INT64, SL_SUM, 8});
  op.peer = 1;
  EXPECT_EQ(RankAlgorithm(module_, "direct", ShapeOf(1, 3, 256)).MakePlan(op).ok(), false);
}

// A ring's plan does not grow with the number of ranks.
TEST_F(Plans, OfRingsHaveConstantSize) {
  const PlanCase small{"ring", 4, SL_OP_ALL_REDUCE, SL_FLOAT32, SL_SUM, 1 << 20};
  PlanCase large = small;
  large.ranks = 1000;
  auto a = RankAlgorithm(module_, "ring", ShapeOf(1, 4, 1 << 17)).MakePlan(OpOf(small));
  auto b = RankAlgorithm(module_, "ring", ShapeOf(1, 1000, 1 << 17)).MakePlan(OpOf(large));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a.value()->lane(0).size(), b.value()->lane(0).size());
}

}  // namespace
}  // namespace sl::kernel

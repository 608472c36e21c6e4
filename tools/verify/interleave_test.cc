// SPDX-License-Identifier: Apache-2.0
//
// The argument of docs/verify.md, tried: what is proved is right in every interleaving that comes up, with the declared
// credits and with more; what is stuck once is stuck always; a race shows in some interleaving.
#include <gtest/gtest.h>

#include <map>

#include "sdk/datatype.h"
#include "tests/integration/plan_case.h"
#include "tools/verify/interleave_test_util.h"
#include "tools/verify/mutate_test_util.h"

namespace sl::verify {
namespace {

constexpr uint32_t kChunkBytes = 128;  // 16 elements
constexpr uint32_t kRuns = 6;

// What a plan sends in one lane, the rest in another: right where neither reads what the other writes.
void SplitLanes(Sketch* sketch) {
  std::vector<std::vector<sl_step_t>> lanes(2);
  for (const sl_step_t& step : sketch->lanes[0]) {
    const bool sends = step.kind == SL_STEP_PUT || step.kind == SL_STEP_RESERVE || step.dst.buffer == SL_BUFFER_OUTBOX;
    lanes[sends ? 0 : 1].push_back(step);
  }
  sketch->lanes = std::move(lanes);
}

class Interleavings : public testing::Test {
 protected:
  // Sketches of all ranks of an operation; empty when the family does not serve it.
  std::vector<Sketch> Take(const std::string& family, uint32_t ranks, sl_op_kind_t kind, uint64_t count) {
    const bool rooted =
        kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
    op_ = MakeOp(kind, count, rooted ? 1 : -1);
    op_.datatype = SL_FLOAT64;
    std::vector<Sketch> sketches;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const kernel::RankAlgorithm algorithm(module_, family, kernel::ShapeOf(rank, ranks, kChunkBytes));
      sl_estimate_t estimate{};
      if (!algorithm.Serves(op_, &estimate)) return {};
      sketches.push_back(Sketch::Of(*algorithm.MakePlan(op_).Take()));
    }
    return sketches;
  }

  // The case these sketches make; false when the builder refuses one.
  bool Build(const std::vector<Sketch>& sketches) {
    const auto ranks = static_cast<uint32_t>(sketches.size());
    plans_.clear();
    test_ = Case();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      auto plan = sketches[rank].Build(rank, ranks, op_);
      if (!plan.ok()) return false;
      plans_.push_back(plan.Take());
      test_.ranks.push_back({plans_.back().get(), op_});
    }
    return true;
  }

  // Verdict and interleavings of one placement agree.
  void Compare(bool in_place, uint32_t seed) {
    test_.in_place = in_place;
    const Verdict verdict = Verify(test_);
    if (verdict.proved()) {
      ++proved_;
      EXPECT_EQ(Interleave(test_, verdict.credits, kRuns, seed), "");
      EXPECT_EQ(Interleave(test_, verdict.credits + 1 + seed % 3, 2, seed), "");
      return;
    }
    ++faults_[verdict.counter_example->fault];
    if (verdict.counter_example->fault != Fault::kDeadlock) return;
    for (uint32_t run = 0; run < kRuns; ++run) {
      EXPECT_EQ(Interleave(test_, verdict.credits, 1, seed + run), "stuck") << ToText(*verdict.counter_example);
    }
  }

  kernel::RingModule module_;
  sl_op_t op_{};
  std::vector<std::unique_ptr<kernel::Plan>> plans_;
  Case test_;
  uint64_t proved_ = 0;
  std::map<Fault, uint64_t> faults_;
};

TEST_F(Interleavings, GiveTheProvedResult) {
  for (const char* family : {"ring", "tree", "direct"}) {
    for (const uint32_t ranks : {2u, 3u, 5u}) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        const std::vector<Sketch> sketches = Take(family, ranks, kind, 67);
        if (sketches.empty() || !Build(sketches)) continue;
        Compare(false, ranks);
        Compare(true, ranks);
      }
    }
  }
  EXPECT_TRUE(faults_.empty());
  EXPECT_EQ(proved_, 2u * 3u * (5u + 3u + 6u));
}

TEST_F(Interleavings, OfTwoLanesGiveTheProvedResult) {
  for (const sl_op_kind_t kind : {SL_OP_ALL_GATHER, SL_OP_GATHER, SL_OP_SCATTER}) {
    std::vector<Sketch> sketches = Take("direct", 4, kind, 67);
    for (Sketch& sketch : sketches) SplitLanes(&sketch);
    ASSERT_TRUE(Build(sketches));
    Compare(false, 1);
    Compare(true, 1);
  }
  EXPECT_TRUE(faults_.empty());
  EXPECT_EQ(proved_, 6u);
}

// In place an all-to-all writes what it has not sent yet, unless it sends first.
TEST_F(Interleavings, ShowARace) {
  std::vector<Sketch> sketches = Take("direct", 4, SL_OP_ALL_TO_ALL, 67);
  for (Sketch& sketch : sketches) SplitLanes(&sketch);
  ASSERT_TRUE(Build(sketches));
  EXPECT_EQ(Interleave(test_, 1, kRuns, 1), "");
  test_.in_place = true;
  const Verdict verdict = Verify(test_);
  ASSERT_FALSE(verdict.proved());
  EXPECT_EQ(verdict.counter_example->fault, Fault::kRace);
  EXPECT_NE(Interleave(test_, 1, 100, 1), "");
}

// Mistakes in plans of one lane and of two.
TEST_F(Interleavings, AgreeWithTheVerdictOnMistakes) {
  std::mt19937 random(7);
  for (const char* family : {"ring", "tree", "direct"}) {
    for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
      const std::vector<Sketch> original = Take(family, 4, kind, 40);
      if (original.empty()) continue;
      for (uint32_t draw = 0; draw < 22 * 12; ++draw) {
        std::vector<Sketch> sketches = original;
        const bool split = family == std::string("direct") && !HasReduction(kind) && draw % 2 == 0;
        if (split) {
          for (Sketch& sketch : sketches) SplitLanes(&sketch);
        }
        const auto mutation = static_cast<Mutation>(draw % static_cast<uint32_t>(Mutation::kCount));
        const std::string what = Mutate(mutation, draw % 3 == 0, &random, &sketches);
        if (what.empty() || !Build(sketches)) continue;
        SCOPED_TRACE(std::string(family) + " " + OpKindName(kind) + (split ? " in two lanes: " : ": ") + what);
        Compare(false, draw);
        Compare(true, draw);
      }
    }
  }
  // Each way to be wrong that needs an interleaving came up.
  EXPECT_GT(proved_, 500u);
  EXPECT_GT(faults_[Fault::kDeadlock], 100u);
  EXPECT_GT(faults_[Fault::kRace], 20u);
}

}  // namespace
}  // namespace sl::verify

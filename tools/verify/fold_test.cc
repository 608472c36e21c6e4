// SPDX-License-Identifier: Apache-2.0
//
// What folds is what executing everything says: right plans fold, and no mistaken plan is proved by folding that is not
// proved by executing it.
#include "tools/verify/fold.h"

#include <gtest/gtest.h>

#include "sdk/datatype.h"
#include "tests/integration/plan_case.h"
#include "tools/verify/mutate_test_util.h"
#include "tools/verify/rotation.h"

namespace sl::verify {
namespace {

constexpr uint32_t kChunkBytes = 128;  // 16 elements
const char* const kFamilies[] = {"ring", "tree", "direct"};

bool IsRooted(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

// What a plan sends in one lane, the rest in another.
void SplitLanes(Sketch* sketch) {
  std::vector<std::vector<sl_step_t>> lanes(2);
  for (const sl_step_t& step : sketch->lanes[0]) {
    const bool sends = step.kind == SL_STEP_PUT || step.kind == SL_STEP_RESERVE || step.dst.buffer == SL_BUFFER_OUTBOX;
    lanes[sends ? 0 : 1].push_back(step);
  }
  sketch->lanes = std::move(lanes);
}

class Folds : public testing::Test {
 protected:
  // Sketches of all ranks of an operation; empty when the family does not serve it.
  std::vector<Sketch> Take(const std::string& family, uint32_t ranks, sl_op_kind_t kind, uint64_t count,
                           sl_reduction_t reduction = SL_SUM) {
    op_ = MakeOp(kind, count, IsRooted(kind) ? static_cast<int32_t>(ranks / 2) : -1, reduction);
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
    test_.determinism = HasReduction(op_.kind) ? SL_DETERMINISM_RANK : SL_DETERMINISM_WORLD_SIZE;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      auto plan = sketches[rank].Build(rank, ranks, op_);
      if (!plan.ok()) return false;
      plans_.push_back(plan.Take());
      test_.ranks.push_back({plans_.back().get(), op_});
    }
    return true;
  }

  struct Outcome {
    bool proved = true;   // by executing everything, in both placements
    bool columns = true;  // by columns of all ranks
    bool alike = false;   // all ranks have one plan
    bool folded = true;   // by one rank's column
  };

  Outcome Judge() {
    Outcome outcome;
    for (const bool in_place : {false, true}) {
      test_.in_place = in_place;
      outcome.proved &= Verify(test_).proved();
      outcome.columns &= folder_.Prove(test_);
      const std::optional<Case> alike = FoldRanks(test_);
      outcome.alike = alike.has_value();
      outcome.folded &= alike && folder_.Prove(*alike);
    }
    return outcome;
  }

  std::vector<Trace> Traces() const {
    std::vector<Trace> traces;
    for (const auto& plan : plans_) traces.push_back(Unroll(*plan, true));
    return traces;
  }

  // Plans by hand: `sketch_of` makes that of each rank.
  template <typename Make>
  void Write(const sl_op_t& op, uint32_t ranks, Make sketch_of) {
    op_ = op;
    std::vector<Sketch> sketches;
    for (uint32_t rank = 0; rank < ranks; ++rank) sketches.push_back(sketch_of(static_cast<int32_t>(rank)));
    ASSERT_TRUE(Build(sketches));
  }

  kernel::RingModule module_;
  Folder folder_;  // remembers across cases
  sl_op_t op_{};
  std::vector<std::unique_ptr<kernel::Plan>> plans_;
  Case test_;
};

TEST_F(Folds, ProveWhatExecutingProves) {
  for (const char* family : kFamilies) {
    for (uint32_t ranks = 2; ranks <= 16; ++ranks) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        const std::vector<sl_reduction_t> reductions =
            HasReduction(kind) ? std::vector<sl_reduction_t>{SL_SUM, SL_AVG} : std::vector<sl_reduction_t>{SL_SUM};
        for (const sl_reduction_t reduction : reductions) {
          for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{13}, uint64_t{16} * ranks, uint64_t{1009}}) {
            const std::vector<Sketch> sketches = Take(family, ranks, kind, count, reduction);
            if (sketches.empty()) continue;
            ASSERT_TRUE(Build(sketches));
            const Outcome outcome = Judge();
            // Recursive doubling orders operands by rank, so that its ranks do not do the same.
            const bool alike = !IsRooted(kind) && std::string(family) != "tree";
            EXPECT_TRUE(outcome.proved && outcome.columns);
            EXPECT_EQ(outcome.alike, alike) << family << " " << OpKindName(kind) << " of " << count << " on " << ranks;
            EXPECT_EQ(outcome.folded, alike) << family << " " << OpKindName(kind) << " of " << count << " on " << ranks;
          }
        }
      }
    }
  }
}

TEST_F(Folds, ProveNoMistake) {
  std::mt19937 random(11);
  uint64_t alike = 0, alike_wrong = 0, folded = 0, columns = 0, wrong = 0;
  for (const char* family : kFamilies) {
    for (const uint32_t ranks : {2u, 3u, 4u, 5u, 8u}) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        for (const uint64_t count : {uint64_t{13}, uint64_t{16} * ranks, uint64_t{100} * ranks + 3}) {
          const sl_reduction_t reduction = HasReduction(kind) && count % 2 != 0 ? SL_AVG : SL_SUM;
          const std::vector<Sketch> right = Take(family, ranks, kind, count, reduction);
          if (right.empty() || !Build(right)) continue;
          const std::vector<Trace> traces = Traces();
          const bool right_alike = FoldRanks(test_).has_value();
          for (uint32_t draw = 0; draw < 6 * static_cast<uint32_t>(Mutation::kCount); ++draw) {
            const bool everywhere = draw % 2 == 0;
            std::vector<Sketch> sketches = right;
            const auto mutation = static_cast<Mutation>(draw % static_cast<uint32_t>(Mutation::kCount));
            const std::string what = Mutate(mutation, everywhere, &random, &sketches);
            if (what.empty() || !Build(sketches)) continue;
            const Outcome outcome = Judge();
            EXPECT_TRUE(outcome.proved || !outcome.columns) << family << " " << OpKindName(kind) << ": " << what;
            EXPECT_TRUE(outcome.proved || !outcome.folded) << family << " " << OpKindName(kind) << ": " << what;
            // One rank of many that does something else is never folded away.
            EXPECT_TRUE(everywhere || !right_alike || !outcome.alike || Traces() == traces) << what;
            alike += outcome.alike;
            alike_wrong += outcome.alike && !outcome.proved;
            folded += outcome.folded;
            columns += outcome.columns;
            wrong += !outcome.proved;
          }
        }
      }
    }
  }
  // The test has seen all of them: wrong plans that are equal on all ranks, and harmless changes that fold.
  EXPECT_GT(alike_wrong, 500u);
  EXPECT_GT(folded, 100u);
  EXPECT_GT(columns, folded);
  EXPECT_GT(wrong, 5000u);
  printf("alike %llu, of them wrong %llu, folded %llu, by columns %llu, wrong %llu\n",
         static_cast<unsigned long long>(alike), static_cast<unsigned long long>(alike_wrong),
         static_cast<unsigned long long>(folded), static_cast<unsigned long long>(columns),
         static_cast<unsigned long long>(wrong));
}

TEST_F(Folds, AgreeOnPlansOfTwoLanes) {
  uint64_t races = 0, folded = 0;
  for (const char* family : kFamilies) {
    for (const uint32_t ranks : {2u, 3u, 4u, 7u}) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        for (const uint64_t count : {uint64_t{13}, uint64_t{16} * ranks, uint64_t{67}}) {
          std::vector<Sketch> sketches = Take(family, ranks, kind, count);
          for (Sketch& sketch : sketches) SplitLanes(&sketch);
          if (sketches.empty() || !Build(sketches)) continue;
          const Outcome outcome = Judge();
          EXPECT_TRUE(outcome.proved || !outcome.columns) << family << " " << OpKindName(kind) << " of " << count;
          EXPECT_TRUE(outcome.proved || !outcome.folded) << family << " " << OpKindName(kind) << " of " << count;
          races += !outcome.proved;
          folded += outcome.folded;
        }
      }
    }
  }
  EXPECT_GT(races, 0u);
  EXPECT_GT(folded, 0u);
}

// Two ranks reduce a block of 4 each and give it to the other. A chunk is taken as of the wrong block: right as long as
// both blocks are equally long.
TEST_F(Folds, AreNoneWhereAChunkChangesItsBlock) {
  for (const bool wrong : {false, true}) {
    for (const uint64_t count : {uint64_t{8}, uint64_t{6}, uint64_t{4}, uint64_t{1}}) {
      const auto sketch_of = [&](int32_t rank) {
        const int32_t peer = 1 - rank;
        const auto own = static_cast<uint32_t>(rank), other = static_cast<uint32_t>(peer);
        const sl_operand_t taken = Recv(wrong ? other : own);
        Sketch sketch;
        sketch.desc = MakeDesc(2, count, 4, 3);
        sketch.lanes = {{Put(peer, Recv(other), Send(other)), Wait(peer, taken),
                         Reduce(SL_STEP_FINAL, Send(own), In(peer), Recv(own), Recv(own)), Release(peer, taken),
                         Put(peer, Recv(own), Recv(own)), Wait(peer, Recv(other)),
                         Copy(In(peer), Recv(other), Recv(other)), Release(peer, Recv(other))}};
        return sketch;
      };
      Write(MakeOp(SL_OP_ALL_REDUCE, count), 2, sketch_of);
      const Outcome outcome = Judge();
      EXPECT_TRUE(outcome.alike);
      EXPECT_EQ(outcome.proved, !wrong || count == 8);
      EXPECT_EQ(outcome.columns, !wrong);
      EXPECT_EQ(outcome.folded, !wrong);
    }
  }
}

// Reserves and does not send: harmless once, but the next round begins with it.
TEST_F(Folds, AreNoneWhereARoundLeavesAChunkReserved) {
  const auto sketch_of = [](int32_t rank) {
    Sketch sketch;
    sketch.desc = MakeDesc(1, 8, 8, 4);
    sketch.desc.recv.total = 16;
    sketch.desc.block_modulus = 2;
    const int32_t peer = 1 - rank;
    const auto own = static_cast<uint32_t>(rank), other = static_cast<uint32_t>(peer);
    sketch.lanes = {{Put(peer, Send(0), Send(0)), Copy(Send(0), Recv(own), Send(0)), Wait(peer, Recv(other)),
                     Copy(In(peer), Recv(other), Recv(other)), Release(peer, Recv(other)), Reserve(peer, Send(0))}};
    return sketch;
  };
  Write(MakeOp(SL_OP_ALL_GATHER, 8), 2, sketch_of);
  EXPECT_TRUE(Verify(test_).proved());
  EXPECT_TRUE(FindColumn(test_));
  EXPECT_FALSE(folder_.Prove(test_));
}

// All ranks send all they have to all: each adds up from its own share on.
TEST_F(Folds, AreNoneWhereTheOrderTurnsWithTheRankAndMustNot) {
  constexpr uint32_t kRanks = 4;
  const auto sketch_of = [](int32_t rank) {
    Sketch sketch;
    sketch.desc = MakeDesc(1, 8, 8, 4);
    sketch.lanes.emplace_back();
    for (int32_t k = 1; k < 4; ++k) sketch.lanes[0].push_back(Put((rank + k) % 4, Send(0), Send(0)));
    for (int32_t k = 1; k < 4; ++k) {
      const int32_t peer = (rank + k) % 4;
      sketch.lanes[0].push_back(Wait(peer, Recv(0)));
      sketch.lanes[0].push_back(
          Reduce(k == 3 ? SL_STEP_FINAL : 0, k == 1 ? Send(0) : Recv(0), In(peer), Recv(0), Recv(0)));
      sketch.lanes[0].push_back(Release(peer, Recv(0)));
    }
    return sketch;
  };
  Write(MakeOp(SL_OP_ALL_REDUCE, 8), kRanks, sketch_of);
  EXPECT_EQ(Verify(test_).counter_example->fault, Fault::kOrder);
  std::optional<Case> alike = FoldRanks(test_);
  ASSERT_TRUE(alike);
  EXPECT_FALSE(folder_.Prove(*alike));
  alike->determinism = test_.determinism = SL_DETERMINISM_RUN;
  EXPECT_TRUE(Verify(test_).proved());
  EXPECT_TRUE(folder_.Prove(*alike));
}

TEST(Column, IsNoneWhereBuffersAreCutUnequally) {
  const auto column_of = [](const std::function<void(Sketch*)>& change) {
    std::vector<Sketch> sketches(1);
    sketches[0].desc = MakeDesc(2, 8, 4, 4);
    sketches[0].desc.scratch = {4, 4, 8};
    sketches[0].desc.scratch_bytes = 32;
    sketches[0].lanes = {
        {Copy(Send(0), Scratch(0), Send(0)), Copy(Scratch(0), Recv(0), Send(0)), Copy(Send(1), Recv(1), Recv(1))}};
    change(&sketches[0]);
    Team team(MakeOp(SL_OP_ALL_REDUCE, 8), std::move(sketches));
    team.Check();
    return FindColumn(team.test());
  };
  const std::optional<Column> column = column_of([](Sketch*) {});
  ASSERT_TRUE(column);
  EXPECT_EQ(column->block, 4u);
  EXPECT_EQ(column->count, 2u);
  EXPECT_TRUE(column->cut);
  EXPECT_FALSE(column_of([](Sketch* sketch) { sketch->desc.scratch.stride = 3; }));
  EXPECT_FALSE(column_of([](Sketch* sketch) { sketch->desc.recv.length = 3; }));
  EXPECT_FALSE(column_of([](Sketch* sketch) { sketch->desc.chunk = 2, sketch->desc.rounds = 1; }));
  // Blocks that differ need blocks of one length.
  const auto cross = [](Sketch* sketch) { sketch->lanes[0][2] = Copy(Send(0), Recv(1), Recv(1)); };
  ASSERT_TRUE(column_of(cross));
  EXPECT_FALSE(column_of(cross)->cut);
  EXPECT_FALSE(column_of([&](Sketch* sketch) {
    cross(sketch);
    sketch->desc.recv.total = 7;
  }));
  // So do several lanes.
  const auto two_lanes = [](Sketch* sketch) { sketch->lanes.emplace_back(); };
  EXPECT_FALSE(column_of(two_lanes)->cut);
  EXPECT_FALSE(column_of([&](Sketch* sketch) {
    two_lanes(sketch);
    sketch->desc.send.total = sketch->desc.recv.total = 7;
  }));
}

}  // namespace
}  // namespace sl::verify

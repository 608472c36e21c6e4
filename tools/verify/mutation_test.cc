// SPDX-License-Identifier: Apache-2.0
//
// Right plans with one mistake each. What the builder and the verifier let pass is run for real: a mistake that gives a
// wrong result even once was missed. The others changed nothing that matters; docs/verify.md says why, by kind.
#include <gtest/gtest.h>

#include <map>

#include "sdk/datatype.h"
#include "tests/integration/plan_case.h"
#include "tools/verify/mutate_test_util.h"
#include "tools/verify/oracle_test_util.h"

namespace sl::verify {
namespace {

constexpr uint32_t kChunkBytes = 128;  // 16 elements, so that plans have rounds
constexpr uint32_t kRuns = 4;          // for each placement of what was let pass
constexpr int kDrawsPerKind = 12;      // mistakes tried for each kind and case

struct Tally {
  uint64_t mutants = 0;
  uint64_t refused = 0;  // by the builder
  uint64_t refuted = 0;  // by the verifier
  uint64_t same = 0;     // no mistake at all: every rank executes the very same steps
  uint64_t order = 0;    // proved, and right when run: the same steps in another order
  uint64_t steps = 0;    // proved, and right when run: other steps
  uint64_t missed = 0;   // proved, and wrong when run

  void Add(const Tally& other) {
    mutants += other.mutants;
    refused += other.refused;
    refuted += other.refuted;
    same += other.same;
    order += other.order;
    steps += other.steps;
    missed += other.missed;
  }
};

struct Original {
  std::string family;
  sl_op_t op;
  std::vector<Sketch> sketches;
  std::vector<Trace> traces;
  uint32_t credits = 1;
};

bool Scales(const sl_op_t& op) { return op.reduction == SL_AVG || op.reduction == SL_PREMUL_SUM; }

class Mutations : public testing::Test {
 protected:
  // The plans of one operation, taken apart; none when the family does not serve it.
  std::optional<Original> Take(const std::string& family, uint32_t ranks, sl_op_kind_t kind, sl_reduction_t reduction,
                               uint64_t count) {
    const bool rooted =
        kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
    Original original{family, MakeOp(kind, count, rooted ? static_cast<int32_t>(ranks / 2) : -1, reduction), {}, {}};
    original.op.datatype = SL_FLOAT64;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const kernel::RankAlgorithm algorithm(module_, family, kernel::ShapeOf(rank, ranks, kChunkBytes));
      sl_estimate_t estimate{};
      if (!algorithm.Serves(original.op, &estimate)) return std::nullopt;
      auto plan = algorithm.MakePlan(original.op);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      original.sketches.push_back(Sketch::Of(*plan.value()));
      original.traces.push_back(Unroll(*plan.value(), Scales(original.op)));
      original.credits = std::max(original.credits, plan.value()->desc().credits);
    }
    return original;
  }

  static std::vector<Trace> Sort(std::vector<Trace> traces) {
    for (Trace& trace : traces) std::sort(trace.begin(), trace.end());
    return traces;
  }

  // Builds, verifies in both placements, and runs what is proved.
  void Judge(const Original& original, const std::vector<Sketch>& sketches, const std::string& what, Tally* tally) {
    ++tally->mutants;
    const auto ranks = static_cast<uint32_t>(sketches.size());
    std::vector<std::unique_ptr<kernel::Plan>> plans;
    std::vector<Trace> traces;
    uint32_t credits = 1;
    Case test;
    test.determinism = HasReduction(original.op.kind) ? SL_DETERMINISM_RANK : SL_DETERMINISM_WORLD_SIZE;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      auto plan = sketches[rank].Build(rank, ranks, original.op);
      if (!plan.ok()) {
        ++tally->refused;
        return;
      }
      plans.push_back(plan.Take());
      test.ranks.push_back({plans.back().get(), original.op});
      traces.push_back(Unroll(*plans.back(), Scales(original.op)));
      credits = std::max(credits, plans.back()->desc().credits);
    }
    if (traces == original.traces && credits == original.credits) {
      ++tally->same;
      return;
    }
    for (const bool in_place : {false, true}) {
      test.in_place = in_place;
      if (Verify(test).proved()) continue;
      ++tally->refuted;
      return;
    }
    for (const bool in_place : {false, true}) {
      test.in_place = in_place;
      const std::string wrong = RunForReal(test, kRuns, static_cast<uint32_t>(tally->mutants));
      if (wrong.empty()) continue;
      ++tally->missed;
      ADD_FAILURE() << original.family << " " << OpKindName(original.op.kind) << ", "
                    << ReductionName(original.op.reduction) << ", " << original.op.count << " on " << ranks << ": "
                    << what << "\nwas proved, yet: " << wrong;
      return;
    }
    const bool reorders = Sort(traces) == Sort(original.traces);
    ++(reorders ? tally->order : tally->steps);
    if (getenv("SL_SHOW_EQUIVALENT") != nullptr) {
      printf("equivalent: %s %s %s %llu on %u: %s\n", original.family.c_str(), OpKindName(original.op.kind),
             ReductionName(original.op.reduction), static_cast<unsigned long long>(original.op.count), ranks,
             what.c_str());
    }
  }

  void MutateAll(const Original& original, std::mt19937* random) {
    for (uint32_t kind = 0; kind < static_cast<uint32_t>(Mutation::kCount); ++kind) {
      const auto mutation = static_cast<Mutation>(kind);
      for (int draw = 0; draw < kDrawsPerKind; ++draw) {
        std::vector<Sketch> sketches = original.sketches;
        const std::string what = Mutate(mutation, draw % 4 == 3, random, &sketches);
        if (!what.empty()) Judge(original, sketches, MutationName(mutation) + (": " + what), &tallies_[mutation]);
      }
    }
  }

  // Prints the table and says what part of the mistakes that matter was caught.
  double Report() const {
    Tally sum;
    printf("%-16s %8s %8s %8s %8s %8s %8s %8s\n", "mistake", "made", "no-op", "builder", "verifier", "order", "steps",
           "missed");
    const auto print = [](const char* name, const Tally& tally) {
      printf("%-16s", name);
      for (const uint64_t number :
           {tally.mutants, tally.same, tally.refused, tally.refuted, tally.order, tally.steps, tally.missed}) {
        printf(" %8llu", static_cast<unsigned long long>(number));
      }
      printf("\n");
    };
    for (const auto& [mutation, tally] : tallies_) {
      print(MutationName(mutation), tally);
      sum.Add(tally);
    }
    print("all", sum);
    return static_cast<double>(sum.refused + sum.refuted) / static_cast<double>(sum.refused + sum.refuted + sum.missed);
  }

  kernel::RingModule module_;
  std::map<Mutation, Tally> tallies_;
};

TEST_F(Mutations, OfEveryPlanAreCaught) {
  std::mt19937 random(20260101);
  for (const char* family : {"ring", "tree", "direct"}) {
    for (const uint32_t ranks : {2u, 3u, 5u, 8u}) {
      for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
        for (const sl_reduction_t reduction : {SL_SUM, SL_AVG, SL_PREMUL_SUM}) {
          if (reduction != SL_SUM && !HasReduction(kind)) continue;
          // One chunk a block and several.
          for (const uint64_t count : {uint64_t{13}, uint64_t{100} * (kind == SL_OP_ALL_REDUCE ? ranks : 1)}) {
            const std::optional<Original> original = Take(family, ranks, kind, reduction, count);
            if (original) MutateAll(*original, &random);
          }
        }
      }
    }
  }
  EXPECT_GE(Report(), 0.99);
}

}  // namespace
}  // namespace sl::verify

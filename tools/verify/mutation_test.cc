// SPDX-License-Identifier: Apache-2.0
//
// Right plans of every algorithm with one mistake each. What the builder and the verifier let pass is run for real: a
// mistake that gives a wrong result even once was missed. The others changed nothing that matters; docs/verify.md says
// why, by kind.
#include <gtest/gtest.h>

#include <map>

#include "sdk/datatype.h"
#include "tools/verify/algorithms.h"
#include "tools/verify/layout.h"
#include "tools/verify/mutate_test_util.h"
#include "tools/verify/oracle_test_util.h"

namespace sl::verify {
namespace {

constexpr uint32_t kChunkElements = 16;  // so that plans have rounds
constexpr uint32_t kChunkBytes = kChunkElements * sizeof(double);
constexpr uint32_t kRuns = 4;      // for each placement of what was let pass
constexpr int kDrawsPerKind = 12;  // mistakes tried for each kind and case

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

struct Placement {
  uint32_t ranks;
  const char* hosts;  // as for `starling verify --hosts`
};

struct Original {
  std::string algorithm;
  std::string hosts;
  sl_op_t op;
  std::vector<Sketch> sketches;
  std::vector<Trace> traces;
  uint32_t credits = 1;
};

bool Scales(const sl_op_t& op) { return op.reduction == SL_AVG || op.reduction == SL_PREMUL_SUM; }

class Mutations : public testing::Test {
 protected:
  void Load(const std::string& profile) {
    Result<std::unique_ptr<Algorithms>> loaded = Algorithms::Load(profile);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    algorithms_ = loaded.Take();
  }

  // The algorithm of that name for all ranks; none when its module is not built.
  std::unique_ptr<RankSet> Make(const std::string& name, const Placement& placement) {
    CommShape shape{.ranks = placement.ranks, .link_chunk_bytes = kChunkBytes};
    shape.host_of = HostsOf(placement.hosts, placement.ranks).Take();
    for (const Algorithm& algorithm : algorithms_->list()) {
      if (algorithm.name == name) return RankSet::Create(algorithm, shape).Take();
    }
    return nullptr;
  }

  // The plans of one operation, taken apart; none when the algorithm does not serve it.
  static std::optional<Original> Take(const RankSet& ranks, sl_op_kind_t kind, sl_reduction_t reduction,
                                      uint64_t count) {
    const bool rooted =
        kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
    Original original;
    original.op = MakeOp(kind, count, rooted ? static_cast<int32_t>(ranks.ranks() / 2) : -1, reduction);
    original.op.datatype = SL_FLOAT64;
    sl_estimate_t estimate{};
    if (ranks.Estimate(original.op, &estimate) != SL_OK) return std::nullopt;
    const Result<PlanSet> made = ranks.MakePlans(original.op);
    EXPECT_TRUE(made.ok()) << made.status().message();
    for (const auto& plan : made.value().plans) {
      original.sketches.push_back(Sketch::Of(*plan));
      original.traces.push_back(Unroll(*plan, Scales(original.op)));
      original.credits = std::max(original.credits, plan->desc().credits);
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
      ADD_FAILURE() << original.algorithm << " " << OpKindName(original.op.kind) << ", "
                    << ReductionName(original.op.reduction) << ", " << original.op.count << " on " << ranks
                    << " ranks, hosts " << original.hosts << ": " << what << "\nwas proved, yet: " << wrong;
      return;
    }
    const bool reorders = Sort(traces) == Sort(original.traces);
    ++(reorders ? tally->order : tally->steps);
    if (getenv("SL_SHOW_EQUIVALENT") != nullptr) {
      printf("equivalent: %s %s %s %llu on %u ranks, hosts %s: %s\n", original.algorithm.c_str(),
             OpKindName(original.op.kind), ReductionName(original.op.reduction),
             static_cast<unsigned long long>(original.op.count), ranks, original.hosts.c_str(), what.c_str());
    }
  }

  void Mutate(const Original& original) {
    for (uint32_t kind = 0; kind < static_cast<uint32_t>(Mutation::kCount); ++kind) {
      const auto mutation = static_cast<Mutation>(kind);
      for (int draw = 0; draw < kDrawsPerKind; ++draw) {
        std::vector<Sketch> sketches = original.sketches;
        const std::string what = verify::Mutate(mutation, draw % 4 == 3, &random_, &sketches);
        if (!what.empty()) Judge(original, sketches, MutationName(mutation) + (": " + what), &tallies_[mutation]);
      }
    }
  }

  // Everything that one algorithm does with ranks so placed, at these counts of a rank.
  void MutateAll(const std::string& name, const Placement& placement, const std::vector<uint64_t>& counts) {
    const std::unique_ptr<RankSet> ranks = Make(name, placement);
    if (ranks == nullptr) return;
    for (sl_op_kind_t kind = SL_OP_ALL_REDUCE; kind <= SL_OP_SCATTER; ++kind) {
      for (const sl_reduction_t reduction : {SL_SUM, SL_AVG, SL_PREMUL_SUM}) {
        if (reduction != SL_SUM && !HasReduction(kind)) continue;
        for (const uint64_t count : counts) {
          const uint64_t whole = kind == SL_OP_ALL_REDUCE && count >= kChunkElements ? count * placement.ranks : count;
          std::optional<Original> original = Take(*ranks, kind, reduction, whole);
          if (!original) continue;
          original->algorithm = name;
          original->hosts = placement.hosts;
          Mutate(*original);
        }
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

  std::unique_ptr<Algorithms> algorithms_;
  std::mt19937 random_{20260101};
  std::map<Mutation, Tally> tallies_;
};

// One chunk a block and several.
TEST_F(Mutations, OfPlansForOneHostAreCaught) {
  Load("auto");
  for (const char* name : {"ring", "tree", "direct"}) {
    for (const uint32_t ranks : {2u, 3u, 5u, 8u}) MutateAll(name, {ranks, "1"}, {13, 100});
  }
  EXPECT_GE(Report(), 0.99);
}

// And blocks of which several share a chunk.
TEST_F(Mutations, OfPlansForSeveralHostsAreCaught) {
  Load("auto");
  for (const Placement& placement : {Placement{4, "2"}, {5, "2:cyclic"}, {6, "3+1+2"}}) {
    MutateAll("two-level", placement, {2, 13, 100});
  }
  Load(std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/tools/verify/bytes_first.toml");
  for (const Placement& placement : {Placement{5, "3:cyclic"}, {6, "3+1+2"}}) MutateAll("two-level", placement, {100});
  EXPECT_GE(Report(), 0.99);
}

}  // namespace
}  // namespace sl::verify

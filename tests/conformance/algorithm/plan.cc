// SPDX-License-Identifier: Apache-2.0
// Plans: pure, legal, and proved to compute their operation.
#include <cstring>

#include "sdk/datatype.h"
#include "tests/conformance/algorithm/suite.h"
#include "tests/conformance/algorithm/team.h"
#include "tests/conformance/kit/proof.h"
#include "tests/conformance/kit/random.h"

namespace sl::conform::algorithm {
namespace {

// A builder that keeps what it is told as bytes, and can refuse the n-th call.
class Recorder {
 public:
  explicit Recorder(uint64_t refuse_at = UINT64_MAX) : refuse_at_(refuse_at) {}

  static const sl_plan_builder_ops_t* Ops() {
    static const sl_plan_builder_ops_t kOps = {sizeof(kOps), 0, Describe, BeginLane, AddStep};
    return &kOps;
  }
  sl_plan_builder_t* handle() { return reinterpret_cast<sl_plan_builder_t*>(this); }
  const std::string& bytes() const { return bytes_; }
  uint64_t calls() const { return calls_; }

 private:
  static Recorder& Of(sl_plan_builder_t* builder) { return *reinterpret_cast<Recorder*>(builder); }
  sl_status_t Keep(const void* data, size_t bytes) {
    if (calls_++ == refuse_at_) return SL_ERR_INVALID;
    bytes_.append(static_cast<const char*>(data), bytes);
    return SL_OK;
  }
  static sl_status_t Describe(sl_plan_builder_t* builder, const sl_plan_desc_t* desc) {
    return Of(builder).Keep(desc, desc->struct_size < sizeof(*desc) ? desc->struct_size : sizeof(*desc));
  }
  static sl_status_t BeginLane(sl_plan_builder_t* builder) { return Of(builder).Keep("lane", 4); }
  static sl_status_t AddStep(sl_plan_builder_t* builder, const sl_step_t* step) {
    return Of(builder).Keep(step, sizeof(*step));
  }

  const uint64_t refuse_at_;
  uint64_t calls_ = 0;
  std::string bytes_;
};

// The estimate of a planned operation; false when the algorithm does not plan it.
bool IsPlanned(const Subject& subject, const Team& team, const sl_op_t& op, sl_estimate_t* out_estimate) {
  *out_estimate = {};
  out_estimate->struct_size = sizeof(*out_estimate);
  return subject.ops.estimate(team.algorithm(0), &op, out_estimate) == SL_OK && out_estimate->run == SL_RUN_PLAN;
}

// Calls check(subject, team, op, estimate) for everything `wanted` that is planned; skips when nothing is.
template <typename Wanted, typename Check>
void ForPlanned(Trial& trial, const std::vector<TeamShape>& shapes, Wanted wanted, Check check) {
  const Subject subject(trial, SL_ALGORITHM_ID);
  if (!HasSlot(subject.table, offsetof(sl_algorithm_ops_t, plan))) trial.Skip("it has no plan()");
  bool is_any = false;
  for (const TeamShape& shape : shapes) {
    const Scope scope(
        fmt::format("{} ranks on {} hosts, chunks of {} bytes", shape.ranks, shape.hosts, shape.link_chunk_bytes));
    const Team team(trial, subject, shape);
    if (!team.IsServed()) continue;
    for (const sl_op_t& op : ManyOps(trial, team.size())) {
      sl_estimate_t estimate;
      if (!wanted(op) || !IsPlanned(subject, team, op, &estimate)) continue;
      is_any = true;
      check(subject, team, op, estimate);
    }
  }
  if (!is_any) trial.Skip("it plans nothing of this kind");
}

void Pure(Trial& trial) {
  const auto all = [](const sl_op_t&) { return true; };
  ForPlanned(trial, {{2}, {3}, {4, 2}}, all, [&](const Subject& subject, const Team& team, sl_op_t op, const auto&) {
    const uint32_t rank = static_cast<uint32_t>(op.count) % team.size();
    Recorder first;
    const sl_status_t status = subject.ops.plan(team.algorithm(rank), &op, Recorder::Ops(), first.handle());
    trial.Expect(status == SL_OK, "{}: estimate serves it, plan() gave {}: {}", OpText(op), StatusName(status),
                 ErrorText());
    op.send = reinterpret_cast<const void*>(uintptr_t{0x10});
    op.recv = reinterpret_cast<void*>(uintptr_t{0x11});
    op.seq = 99;
    Recorder second;
    subject.ops.plan(team.algorithm(rank), &op, Recorder::Ops(), second.handle());
    trial.Expect(first.bytes() == second.bytes(), "{}: planned again, the plan differs", OpText(op));
  });
}

// The builder's first refusal must come back from plan(), at whatever call it happens.
void PassesErrorsOn(Trial& trial) {
  const auto few = [](const sl_op_t& op) {
    return op.datatype == SL_FLOAT32 && op.reduction == SL_SUM && op.count <= 1000;
  };
  ForPlanned(trial, {{3}}, few, [&](const Subject& subject, const Team& team, const sl_op_t& op, const auto&) {
    Recorder whole;
    subject.ops.plan(team.algorithm(1), &op, Recorder::Ops(), whole.handle());
    for (uint64_t call = 0; call < whole.calls(); ++call) {
      Recorder refusing(call);
      const sl_status_t status = subject.ops.plan(team.algorithm(1), &op, Recorder::Ops(), refusing.handle());
      trial.Expect(status < SL_OK, "{}: the builder refused call {}, and plan() gave {}", OpText(op), call + 1,
                   StatusName(status));
    }
  });
}

// The plans of all ranks, proved together.
void Prove(Trial& trial, const Subject& subject, const Team& team, const sl_op_t& op, bool in_place,
           uint32_t determinism) {
  std::vector<RankToProve> ranks;
  for (uint32_t rank = 0; rank < team.size(); ++rank) {
    sl_algorithm_t* algorithm = team.algorithm(rank);
    ranks.push_back({&team.shape(rank), op, [&subject, algorithm, op](const auto* ops, auto* builder) {
                       return subject.ops.plan(algorithm, &op, ops, builder);
                     }});
  }
  const std::string wrong = ProvePlans(ranks, in_place, determinism);
  trial.Expect(wrong.empty(), "{}{}: {}", OpText(op), in_place ? ", in place" : "", wrong);
}

void Proved(Trial& trial, sl_op_kind_t kind) {
  std::vector<TeamShape> shapes = {{2}, {3, 1, 1024, 2}, {4, 2, 4096, 2}, {5}};
  if (trial.full()) shapes.insert(shapes.end(), {{7}, {8}, {8, 2}, {16}, {13, 1, 1024, 4}});
  // A type matters to a plan by its size, and a reduction by whether it scales: a few of each stand for all.
  const auto wanted = [&](const sl_op_t& op) {
    const bool is_told = op.datatype == SL_INT8 || op.datatype == SL_FLOAT32 || trial.full();
    return op.kind == kind && is_told && op.reduction != SL_PROD && op.reduction != SL_MIN &&
           op.count <= (trial.full() ? 99991u : 16384u);
  };
  ForPlanned(trial, shapes, wanted,
             [&](const Subject& subject, const Team& team, const sl_op_t& op, const sl_estimate_t& estimate) {
               Prove(trial, subject, team, op, false, estimate.determinism);
               if (kind != SL_OP_ALL_TO_ALL) Prove(trial, subject, team, op, true, estimate.determinism);
             });
}

}  // namespace

std::vector<Test> PlanTests() {
  std::vector<Test> tests = {
      {"Plan.IsPure", "the same operation has the same plan; pointers are not looked at", Pure},
      {"Plan.PassesTheBuildersErrorsOn", "a refused step is not a plan", PassesErrorsOn},
  };
  for (sl_op_kind_t kind = 0; kind < SL_OP_SEND; ++kind) {
    tests.push_back({fmt::format("Plan.IsProved.{}", OpKindName(kind)),
                     "every element is the right combination, no deadlock, no race, in the class declared",
                     [kind](Trial& trial) { Proved(trial, kind); }});
  }
  return tests;
}

}  // namespace sl::conform::algorithm

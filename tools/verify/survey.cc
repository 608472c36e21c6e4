// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kernel/events/last_error.h"
#include "kernel/events/printable.h"
#include "sdk/datatype.h"
#include "tools/verify/rotation.h"

namespace sl::verify {
namespace {

// A type with a reduction. Plans see the size of an element, and whether contributions are scaled.
struct Flavour {
  sl_datatype_t datatype;
  sl_reduction_t reduction;
};
constexpr Flavour kReducing[] = {{SL_FLOAT32, SL_SUM},        {SL_FLOAT32, SL_PROD}, {SL_FLOAT32, SL_MAX},
                                 {SL_FLOAT32, SL_MIN},        {SL_FLOAT32, SL_AVG},  {SL_FLOAT32, SL_PREMUL_SUM},
                                 {SL_INT8, SL_SUM},           {SL_FLOAT16, SL_AVG},  {SL_FLOAT64, SL_SUM},
                                 {SL_BFLOAT16, SL_PREMUL_SUM}};
constexpr Flavour kMoving[] = {{SL_FLOAT32, SL_SUM}, {SL_INT8, SL_SUM}, {SL_FLOAT16, SL_SUM}, {SL_FLOAT64, SL_SUM}};

// Roots that others may be rotations of.
constexpr size_t kMaxBases = 16;

bool HasRoot(sl_op_kind_t kind) {
  return kind == SL_OP_BROADCAST || kind == SL_OP_REDUCE || kind == SL_OP_GATHER || kind == SL_OP_SCATTER;
}

bool HasPlacements(sl_op_kind_t kind) { return kind != SL_OP_SEND && kind != SL_OP_RECV; }

std::vector<Flavour> FlavoursOf(sl_op_kind_t kind) {
  if (HasReduction(kind)) return {std::begin(kReducing), std::end(kReducing)};
  return {std::begin(kMoving), std::end(kMoving)};
}

}  // namespace

std::vector<uint64_t> CountsFor(sl_op_kind_t kind, uint32_t ranks, uint64_t chunk) {
  std::vector<uint64_t> counts = {
      0, 1, 2, ranks - 1, ranks, ranks + 1u, 16 * ranks, 16 * ranks + 1, 1009, chunk - 1, chunk + 1, 2 * chunk + 17};
  // Where a rank's share is a part of the whole, a share needs as many chunks.
  if (kind == SL_OP_ALL_REDUCE) counts.push_back(2 * chunk * ranks + ranks + 1);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

Result<std::unique_ptr<Survey>> Survey::Open(const Algorithm& algorithm, const CommShape& shape,
                                             std::vector<uint64_t> counts, Effort effort) {
  SL_ASSIGN(auto ranks, RankSet::Create(algorithm, shape));
  return std::unique_ptr<Survey>(new Survey(algorithm.name, shape, std::move(ranks), std::move(counts), effort));
}

std::string Survey::NameOf(const sl_op_t& op, const std::string& placement) const {
  std::string name = fmt::format("{} {} of {} {}", name_, OpKindName(op.kind), op.count, DatatypeName(op.datatype));
  if (HasReduction(op.kind)) name += fmt::format(", {}", ReductionName(op.reduction));
  if (HasRoot(op.kind)) name += fmt::format(", root {}", op.root);
  if (op.kind == SL_OP_SEND) name += fmt::format(" from rank {} to rank {}", op.root, op.peer);
  name += fmt::format(", {} ranks", shape_.ranks);
  if (!shape_.host_of.empty()) {
    const uint32_t hosts = *std::max_element(shape_.host_of.begin(), shape_.host_of.end()) + 1;
    if (hosts > 1) name += fmt::format(" on {} hosts", hosts);
  }
  return name + placement;
}

bool Survey::FailToPlan(const sl_op_t& op, const Status& status, SurveyRow* row) const {
  row->failure = Failure{NameOf(op, ""), "no plan: " + kernel::Printable(status.message()) + "\n", std::nullopt};
  return false;
}

// Both placements of one set of plans, or its only one, by executing it.
bool Survey::Execute(const Question& question, const sl_op_t& op, PlanSet* set, SurveyRow* row) const {
  set->test.determinism = question.determinism;
  for (const bool in_place : {false, true}) {
    if (in_place && !HasPlacements(op.kind)) continue;
    set->test.in_place = in_place;
    const Verdict verdict = Verify(set->test);
    row->steps += verdict.steps;
    if (!verdict.proved()) {
      row->failure = Failure{NameOf(op, in_place ? ", in place" : ""), verify::ToText(*verdict.counter_example),
                             verdict.counter_example};
      return false;
    }
    ++row->proved;
  }
  return true;
}

// Both placements of one set of plans by what it folds to; false: not proved, which is no failure.
bool Survey::Fold(const Question& question, PlanSet* set, Progress* progress) const {
  set->test.determinism = question.determinism;
  for (const bool in_place : {false, true}) {
    set->test.in_place = in_place;
    if (!progress->folder.Prove(set->test)) return false;
  }
  progress->row.proved += 2;
  progress->row.folded += 2;
  return true;
}

bool Survey::ProveSet(const Question& question, const sl_op_t& op, PlanSet* set, Progress* progress) const {
  return (folds_ && Fold(question, set, progress)) || Execute(question, op, set, &progress->row);
}

// A collective that may treat all ranks alike.
bool Survey::ProveAlike(const Question& question, Progress* progress) const {
  if (folds_) {
    std::optional<PlanSet> folded = ranks_->MakeFolded(question.op);
    if (folded && Fold(question, &*folded, progress)) return true;
  }
  Result<PlanSet> made = ranks_->MakePlans(question.op);
  if (!made.ok()) return FailToPlan(question.op, made.status(), &progress->row);
  return ProveSet(question, question.op, &made.value(), progress);
}

// Every root is proved, or a rotation of one that is: where hosts matter, of the one at its place in the first host.
bool Survey::ProveRoots(const Question& question, Progress* progress) const {
  sl_op_t op = question.op;
  // An order that must not depend on ranks is no rotation of another.
  const bool bound = HasReduction(op.kind) && question.determinism == SL_DETERMINISM_WORLD_SIZE;
  std::vector<PlanSet> bases;
  const auto is_rotation = [&](const PlanSet& base) {
    const auto distance = static_cast<uint32_t>(op.root - OperationOf(base.test).root);
    const std::optional<Rotation> rotation = RotationOfRoots(base.test, distance);
    return rotation && ranks_->AreRotations(base.test, op, *rotation);
  };
  for (uint32_t root = 0; root < shape_.ranks; ++root) {
    op.root = static_cast<int32_t>(root);
    if (!bound && std::any_of(bases.begin(), bases.end(), is_rotation)) {
      progress->row.proved += 2;
      progress->row.rotated += 2;
      continue;
    }
    Result<PlanSet> made = ranks_->MakePlans(op);
    if (!made.ok()) return FailToPlan(op, made.status(), &progress->row);
    if (!ProveSet(question, op, &made.value(), progress)) return false;
    if (bases.size() < kMaxBases) bases.push_back(made.Take());
  }
  return true;
}

// Every rank to every other; those from rank 0 are proved, the others are rotations of them or proved too.
bool Survey::ProvePairs(const Question& question, SurveyRow* row) const {
  for (uint32_t distance = 1; distance < shape_.ranks; ++distance) {
    PlanSet first;
    for (uint32_t from = 0; from < shape_.ranks; ++from) {
      const uint32_t to = (from + distance) % shape_.ranks;
      sl_op_t op = question.op;
      op.root = static_cast<int32_t>(from);
      op.peer = static_cast<int32_t>(to);
      if (from != 0) {
        const std::optional<Rotation> rotation = RotationOfRoots(first.test, from);
        if (rotation && ranks_->IsRotatedPair(first.test, question.op, to, *rotation)) {
          ++row->proved;
          ++row->rotated;
          continue;
        }
      }
      Result<PlanSet> made = ranks_->MakePair(question.op, from, to);
      if (!made.ok()) return FailToPlan(op, made.status(), row);
      if (!Execute(question, op, &made.value(), row)) return false;
      if (from == 0) first = made.Take();
    }
  }
  return true;
}

bool Survey::ProveQuestion(const Question& question, Progress* progress) const {
  if (question.op.kind == SL_OP_SEND) return ProvePairs(question, &progress->row);
  return HasRoot(question.op.kind) ? ProveRoots(question, progress) : ProveAlike(question, progress);
}

// What is to be proved where the algorithm serves the operation with a plan; counts it where it does not.
std::optional<Survey::Question> Survey::Ask(const sl_op_t& op, SurveyRow* row) const {
  sl_estimate_t estimate{};
  const sl_status_t status = ranks_->Estimate(op, &estimate);
  const bool served = status == SL_OK;
  if (served && estimate.run == SL_RUN_PLAN) return Question{op, estimate.determinism};
  ++(served ? row->launches : row->refused);
  estimate.reason[sizeof(estimate.reason) - 1] = '\0';
  row->reason = kernel::Printable(estimate.reason);
  if (status == SL_ERR_EXCEPTION) {
    row->failure = Failure{
        NameOf(op, ""), "no estimate: " + kernel::Printable(kernel::ModuleFailure(status).message()) + "\n", {}};
  }
  return std::nullopt;
}

SurveyRow Survey::Run(sl_op_kind_t kind) const {
  Progress progress;
  SurveyRow& row = progress.row;
  row.algorithm = name_;
  row.kind = kind;
  row.ranks = shape_.ranks;
  const auto begin = std::chrono::steady_clock::now();
  for (const Flavour& flavour : FlavoursOf(kind)) {
    const uint64_t chunk = shape_.link_chunk_bytes / DatatypeBytes(flavour.datatype);
    for (const uint64_t count : counts_.empty() ? CountsFor(kind, shape_.ranks, chunk) : counts_) {
      sl_op_t op{};
      op.struct_size = sizeof(op);
      op.kind = kind;
      op.datatype = flavour.datatype;
      op.reduction = flavour.reduction;
      op.root = HasRoot(kind) ? 0 : -1;
      op.peer = kind == SL_OP_SEND ? static_cast<int32_t>(shape_.ranks) - 1 : -1;
      op.count = count;
      const std::optional<Question> question = Ask(op, &row);
      if (row.failure) break;
      if (!question) continue;
      if (!ProveQuestion(*question, &progress)) break;
    }
    if (row.failure) break;
  }
  row.steps += progress.folder.steps();
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return row;
}

}  // namespace sl::verify

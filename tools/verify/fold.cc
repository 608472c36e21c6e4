// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/fold.h"

#include "sdk/datatype.h"

namespace sl::verify {
namespace {

// Columns of one collective differ in flags, in what is demanded of orders, and in roots that are no rotations of
// others.
constexpr size_t kMaxKnown = 48;

bool Scales(const sl_op_t& op) {
  return HasReduction(op.kind) && (op.reduction == SL_AVG || op.reduction == SL_PREMUL_SUM);
}
bool IsOrdered(const sl_op_t& op) { return HasReduction(op.kind) && op.datatype >= SL_FLOAT16; }

// Whether the proof of one is the proof of the other, plans being equal: nothing else of an operation is looked at.
bool AskTheSame(const Case& made, const Case& test, const Column& column) {
  const sl_op_t& a = OperationOf(made);
  const sl_op_t& b = OperationOf(test);
  return a.kind == b.kind && a.root == b.root && a.peer == b.peer && a.count == column.count &&
         Scales(a) == Scales(b) && IsOrdered(a) == IsOrdered(b) && made.determinism == test.determinism &&
         made.folds.ranks == test.folds.ranks;
}

}  // namespace

Folder::Known* Folder::Find(const Case& test, const Column& column) {
  for (Known& known : known_) {
    if (AskTheSame(known.column.test, test, column) && IsColumnOf(known.column.test, test, column)) return &known;
  }
  Result<PlanSet> made = MakeColumn(test, column);
  if (!made.ok()) return nullptr;
  if (known_.size() == kMaxKnown) known_.pop_front();
  return &known_.emplace_back(Known{made.Take(), {}});
}

bool Folder::Prove(const Case& test) {
  const std::optional<Column> column = FindColumn(test);
  if (!column) return false;
  Known* known = Find(test, *column);
  if (known == nullptr) return false;
  std::optional<bool>& proved = known->proved[test.in_place ? 1 : 0];
  if (!proved) {
    known->column.test.in_place = test.in_place;
    const Verdict verdict = Verify(known->column.test);
    steps_ += verdict.steps;
    proved = verdict.proved();
  }
  return *proved;
}

}  // namespace sl::verify

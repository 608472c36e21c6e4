// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/result.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/plan/signature.h"
#include "sdk/datatype.h"
#include "tools/verify/machine.h"

namespace sl::verify {
namespace {

bool Scales(const sl_op_t& op) {
  return HasReduction(op.kind) && (op.reduction == SL_AVG || op.reduction == SL_PREMUL_SUM);
}

bool IsFloat(sl_datatype_t datatype) { return datatype >= SL_FLOAT16; }

}  // namespace

std::vector<Wanted> WantedOf(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const uint64_t elements = kernel::RecvElements(op, rank, size);
  const auto own = static_cast<int64_t>(rank * op.count);
  const auto root = static_cast<uint32_t>(op.root);
  std::vector<Wanted> wanted;
  if (elements == 0) return wanted;
  // One block of every rank, from the same place in each of their inputs.
  const auto blocks = [&](int64_t first) {
    for (uint32_t from = 0; from < size; ++from) {
      const uint64_t begin = from * op.count;
      wanted.push_back({begin, begin + op.count, from, first - static_cast<int64_t>(begin)});
    }
    return wanted;
  };
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_REDUCE:
      return {{0, elements, Wanted::kAll, 0}};
    case SL_OP_REDUCE_SCATTER:
      return {{0, elements, Wanted::kAll, own}};
    case SL_OP_ALL_GATHER:
    case SL_OP_GATHER:
      return blocks(0);
    case SL_OP_ALL_TO_ALL:
      return blocks(own);
    case SL_OP_BROADCAST:
      return {{0, elements, root, 0}};
    case SL_OP_SCATTER:
      return {{0, elements, root, own}};
    default:  // recv
      return {{0, elements, static_cast<uint32_t>(op.peer), 0}};
  }
}

bool ResultCheck::IsRight(const Wanted& wanted, Value value) const {
  if (value.shift != wanted.shift) return false;
  if (wanted.rank != Wanted::kAll) return expressions_->IsInput(value, wanted.rank);
  if (Scales(OperationOf(test_))) {
    return expressions_->kind(value.node) == Expressions::Kind::kFinished && expressions_->JoinsAll(value.node);
  }
  return expressions_->JoinsAll(value.node);
}

std::string ResultCheck::Text(Value value, uint64_t element) const {
  return expressions_->ToText(value, static_cast<int64_t>(element) + value.shift);
}

void ResultCheck::Describe(const Wanted& wanted, Value value, uint64_t element, CounterExample* wrong) const {
  const auto index = static_cast<int64_t>(element) + wanted.shift;
  const auto ranks = static_cast<uint32_t>(test_.ranks.size());
  wrong->holds = Text(value, element);
  if (wanted.rank != Wanted::kAll) {
    wrong->wants = fmt::format("send{}[{}]", wanted.rank, index);
    return;
  }
  const bool scales = Scales(OperationOf(test_));
  wrong->wants = fmt::format("send[{}] of ranks 0-{}, each once{}", index, ranks - 1,
                             scales ? ", scaled, and the result finished" : "");
  Place first;
  if (expressions_->FindFirstWrong(value.node, &first)) {
    wrong->notes.push_back(fmt::format("went wrong first at rank {} lane {} step {} ({}) round {} repetition {}",
                                       first.rank, first.lane, first.step, StepTextAt(test_, first), first.round,
                                       first.repetition));
  }
}

std::optional<CounterExample> ResultCheck::Check(uint32_t rank, const Memory& memory) {
  const sl_op_t& op = test_.ranks[rank].op;
  const bool takes_part = test_.ranks[rank].plan != nullptr;
  Pieces& result = results_.emplace_back();
  if (!takes_part) return std::nullopt;
  for (const Wanted& wanted : WantedOf(op, rank, static_cast<uint32_t>(test_.ranks.size()))) {
    Pieces pieces;
    uint64_t unwritten = 0;
    CounterExample wrong;
    wrong.rank = rank;
    wrong.buffer = SL_BUFFER_RECV;
    if (!memory.Read(SL_BUFFER_RECV, wanted.begin, wanted.end - wanted.begin, &pieces, &unwritten)) {
      wrong.element = unwritten;
      Describe(wanted, {}, unwritten, &wrong);
      wrong.holds = "nothing, no step writes it";
      return wrong;
    }
    uint64_t element = wanted.begin;
    for (const Piece& piece : pieces) {
      // Pieces count from where they were read.
      const Value value = piece.value.Moved(-static_cast<int64_t>(wanted.begin));
      if (!IsRight(wanted, value)) {
        Place writer;
        wrong.element = element;
        Describe(wanted, value, element, &wrong);
        if (memory.FindWriter(SL_BUFFER_RECV, element, &writer)) {
          wrong.place = writer;
          wrong.step = StepTextAt(test_, writer);
        }
        return wrong;
      }
      Append(&result, piece.elements, value);
      element += piece.elements;
    }
  }
  return std::nullopt;
}

// Integers have the same bits in every order, and so has what is only moved.
bool ResultCheck::IsOrderFree() const {
  const sl_op_t& op = OperationOf(test_);
  return !HasReduction(op.kind) || !IsFloat(op.datatype);
}

// An element that rank `rank` combines in another order than rank 0.
std::optional<CounterExample> ResultCheck::FindOtherOrder(uint32_t rank) const {
  const Pieces& ours = results_[0];
  const Pieces& theirs = results_[rank];
  size_t i = 0, j = 0;
  uint64_t end_i = 0, end_j = 0, element = 0;
  while (i < ours.size() && j < theirs.size()) {
    if (ours[i].value != theirs[j].value) {
      CounterExample wrong;
      wrong.fault = Fault::kOrder;
      wrong.rank = rank;
      wrong.buffer = SL_BUFFER_RECV;
      wrong.element = element;
      wrong.holds = Text(theirs[j].value, element);
      wrong.wants = Text(ours[i].value, element) + ", as on rank 0: the algorithm declares equal bits on all ranks";
      return wrong;
    }
    const uint64_t next_i = end_i + ours[i].elements;
    const uint64_t next_j = end_j + theirs[j].elements;
    element = std::min(next_i, next_j);
    if (next_i == element) ++i, end_i = next_i;
    if (next_j == element) ++j, end_j = next_j;
  }
  return std::nullopt;
}

// Ranks are folded: rank r's block k is rank 0's block k - r, turned by r. All ranks have equal bits where each block
// is the first one turned by its number.
bool ResultCheck::IsEverywhereEqual() const {
  uint64_t block = 0;
  const Value first = results_[0].empty() ? Value{} : results_[0][0].value;
  const auto ranks = static_cast<uint32_t>(test_.ranks.size());
  for (const Piece& piece : results_[0]) {
    const bool turns = piece.elements == 1 && piece.value.turn == (first.turn + block) % ranks;
    if (!turns || piece.value.node != first.node) return false;
    ++block;
  }
  return test_.folds.moves_inputs;
}

// What holds of one rank that stands for all: never that orders do not depend on the number of ranks.
std::optional<CounterExample> ResultCheck::CheckFoldedOrder(uint32_t* out_class) const {
  const bool equal = OperationOf(test_).kind != SL_OP_ALL_REDUCE || IsEverywhereEqual();
  *out_class = equal ? SL_DETERMINISM_RANK : SL_DETERMINISM_RUN;
  if (test_.determinism <= *out_class) return std::nullopt;
  CounterExample wrong;
  wrong.fault = Fault::kNotFolded;
  wrong.holds = "an order that turns with the rank";
  wrong.wants = "one order for all ranks: the algorithm declares it";
  return wrong;
}

std::optional<CounterExample> ResultCheck::CheckOrder(uint32_t* out_class) const {
  *out_class = SL_DETERMINISM_WORLD_SIZE;
  if (IsOrderFree()) return std::nullopt;
  if (test_.folds.ranks) return CheckFoldedOrder(out_class);
  // Ranks that hold parts of one result, or none, agree anyway.
  if (OperationOf(test_).kind == SL_OP_ALL_REDUCE) {
    for (uint32_t rank = 1; rank < results_.size(); ++rank) {
      std::optional<CounterExample> wrong = FindOtherOrder(rank);
      if (!wrong) continue;
      *out_class = SL_DETERMINISM_RUN;
      if (test_.determinism > SL_DETERMINISM_RUN) return wrong;
      return std::nullopt;
    }
  }
  for (uint32_t rank = 0; rank < results_.size(); ++rank) {
    uint64_t element = 0;
    for (const Piece& piece : results_[rank]) {
      if (!expressions_->JoinsAligned(piece.value)) {
        *out_class = SL_DETERMINISM_RANK;
        if (test_.determinism <= SL_DETERMINISM_RANK) return std::nullopt;
        CounterExample wrong;
        wrong.fault = Fault::kOrder;
        wrong.rank = rank;
        wrong.buffer = SL_BUFFER_RECV;
        wrong.element = element;
        wrong.holds = Text(piece.value, element);
        wrong.wants =
            "neighbouring ranks joined first, aligned to powers of two: the algorithm declares bits that do "
            "not depend on the number of ranks";
        return wrong;
      }
      element += piece.elements;
    }
  }
  return std::nullopt;
}

}  // namespace sl::verify

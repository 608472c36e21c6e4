// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/plan/signature.h"
#include "tools/verify/expression.h"
#include "tools/verify/machine.h"
#include "tools/verify/result.h"
#include "tools/verify/rotation.h"

namespace sl::verify {
namespace {

const char* BufferName(uint32_t buffer) {
  constexpr const char* kNames[] = {"nothing", "send", "recv", "scratch", "inbox", "outbox"};
  return buffer <= SL_BUFFER_OUTBOX ? kNames[buffer] : "?";
}

CounterExample Mismatch(uint32_t rank, std::string holds, std::string wants) {
  CounterExample wrong;
  wrong.fault = Fault::kMismatch;
  wrong.rank = rank;
  wrong.holds = std::move(holds);
  wrong.wants = std::move(wants);
  return wrong;
}

bool IsPair(const sl_op_t& op) { return op.kind == SL_OP_SEND || op.kind == SL_OP_RECV; }

// Whether the plans belong together at all.
std::optional<CounterExample> FindMismatch(const Case& test) {
  const auto size = static_cast<uint32_t>(test.ranks.size());
  if (size == 0) return Mismatch(0, "no ranks", "at least one");
  if (size > kernel::kSignatureMaxRanks) {
    return Mismatch(0, fmt::format("{} ranks", size), fmt::format("at most {}", kernel::kSignatureMaxRanks));
  }
  const RankPlan* first = nullptr;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const RankPlan& part = test.ranks[rank];
    if (part.plan == nullptr) {
      if (IsPair(OperationOf(test)) || (test.folds.ranks && rank != 0)) continue;
      return Mismatch(rank, "no plan", "a plan of every rank");
    }
    if (part.plan->rank() != rank || part.plan->size() != size) {
      return Mismatch(rank, fmt::format("a plan of rank {} of {}", part.plan->rank(), part.plan->size()),
                      fmt::format("a plan of rank {} of {}", rank, size));
    }
    if (first == nullptr) first = &part;
    const uint64_t signature = kernel::EncodeSignature(part.op);
    const uint64_t wanted = kernel::EncodeSignature(first->op);
    if (signature == wanted) continue;
    return Mismatch(rank, kernel::DescribeSignature(signature),
                    kernel::DescribeSignature(wanted) + ", as the ranks before it call");
  }
  if (!test.folds.ranks || MovesElements(test)) return std::nullopt;
  CounterExample wrong = Mismatch(0, "blocks of several elements", "one element for each block that moves with ranks");
  wrong.fault = Fault::kNotFolded;
  return wrong;
}

}  // namespace

const char* FaultName(Fault fault) {
  constexpr const char* kNames[] = {
      "mismatch",    "chunk not held", "length mismatch",   "deadlock",  "chunk left over",
      "overrun",     "overlap",        "read before write", "race",      "wrong flag",
      "wrong value", "wrong order",    "limit reached",     "not folded"};
  return kNames[static_cast<size_t>(fault)];
}

std::string ToText(const CounterExample& wrong) {
  std::string text = fmt::format("{} at rank {}", FaultName(wrong.fault), wrong.rank);
  if (wrong.place) {
    const Place& place = *wrong.place;
    // The rank that holds a wrong element is also the one that wrote it last.
    text += fmt::format(" lane {} step {} ({}) round {} repetition {}", place.lane, place.step, wrong.step, place.round,
                        place.repetition);
  }
  text += '\n';
  if (wrong.buffer != SL_BUFFER_NONE)
    text += fmt::format("  element    {}[{}]\n", BufferName(wrong.buffer), wrong.element);
  text += fmt::format("  holds      {}\n  should be  {}\n", wrong.holds, wrong.wants);
  for (const std::string& note : wrong.notes) text += fmt::format("  note       {}\n", note);
  return text;
}

const sl_op_t& OperationOf(const Case& test) {
  const auto takes_part = [](const RankPlan& part) { return part.plan != nullptr; };
  const auto found = std::find_if(test.ranks.begin(), test.ranks.end(), takes_part);
  return (found == test.ranks.end() ? test.ranks.front() : *found).op;
}

Verdict Verify(const Case& test) {
  Verdict verdict;
  verdict.counter_example = FindMismatch(test);
  if (verdict.counter_example) return verdict;
  for (const RankPlan& part : test.ranks) {
    if (part.plan != nullptr) verdict.credits = std::max(verdict.credits, part.plan->desc().credits);
  }
  const auto size = static_cast<uint32_t>(test.ranks.size());
  Expressions expressions(size, OperationOf(test).reduction);
  Machine machine(test, verdict.credits, &expressions);
  verdict.counter_example = machine.Run();
  verdict.steps = machine.steps();
  verdict.chunks = machine.chunks();
  ResultCheck check(test, &expressions);
  const uint32_t executed = test.folds.ranks ? 1 : size;
  for (uint32_t rank = 0; rank < executed && verdict.proved(); ++rank) {
    verdict.counter_example = check.Check(rank, machine.memory(rank));
  }
  if (verdict.proved()) verdict.counter_example = check.CheckOrder(&verdict.determinism);
  return verdict;
}

}  // namespace sl::verify

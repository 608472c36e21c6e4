// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace sl::verify {
namespace {

constexpr size_t kNestedInputs = 8;   // longer expressions are summed up
constexpr size_t kUsesLimit = 65536;  // inputs looked at to explain what is wrong
constexpr size_t kFirstSlots = 1024;

const char* SignOf(sl_reduction_t reduction) {
  if (reduction == SL_PROD) return "*";
  if (reduction == SL_MAX) return "max";
  return reduction == SL_MIN ? "min" : "+";
}

uint32_t AddSaturating(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

// "0-5, 7": ranks in rising order.
std::string RangesText(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

uint64_t CountOf(const Pieces& pieces) {
  uint64_t count = 0;
  for (const Piece& piece : pieces) count += piece.elements;
  return count;
}

void Append(Pieces* pieces, uint64_t elements, Value value) {
  if (!pieces->empty() && pieces->back().value == value) {
    pieces->back().elements += elements;
  } else {
    pieces->push_back({elements, value});
  }
}

Pieces FirstOf(const Pieces& pieces, uint64_t elements) {
  Pieces first;
  for (const Piece& piece : pieces) {
    if (elements == 0) break;
    const uint64_t taken = std::min(piece.elements, elements);
    first.push_back({taken, piece.value});
    elements -= taken;
  }
  return first;
}

Expressions::Expressions(uint32_t ranks, sl_reduction_t reduction)
    : ranks_(ranks), sign_(SignOf(reduction)), nodes_(ranks), places_(ranks), slots_(kFirstSlots) {
  for (uint32_t rank = 0; rank < ranks; ++rank) nodes_[rank] = {rank, 0, 0, 0, 1, Kind::kInput, 0, true};
}

uint64_t Expressions::HashOf(const Node& node) {
  const uint64_t operands = uint64_t{node.a} << 32 | node.b;
  const uint64_t kind = uint64_t{node.turn} << 8 | static_cast<uint64_t>(node.kind);
  return Mix(Mix(operands, static_cast<uint64_t>(node.shift)), kind);
}

void Expressions::Grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (NodeId node = ranks_; node < nodes_.size(); ++node) {
    size_t slot = HashOf(nodes_[node]) & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = node + 1;
  }
}

NodeId Expressions::Find(const Node& wanted, const Place& place) {
  if (nodes_.size() * 2 > slots_.size()) Grow();
  size_t slot = HashOf(wanted) & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const Node& node = nodes_[slots_[slot] - 1];
    const bool same_operands = node.a == wanted.a && node.b == wanted.b;
    if (same_operands && node.kind == wanted.kind && node.shift == wanted.shift && node.turn == wanted.turn) {
      return slots_[slot] - 1;
    }
  }
  nodes_.push_back(wanted);
  places_.push_back(place);
  slots_[slot] = static_cast<uint32_t>(nodes_.size());
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Expressions::Scaled(NodeId input, const Place& place) {
  return Find({input, 0, 0, 0, 1, Kind::kScaled, 0, true}, place);
}

Value Expressions::Join(Value a, Value b, const Place& place) {
  const int64_t shift = b.shift - a.shift;
  const uint32_t turn = Turned(b.turn, ranks_ - a.turn);
  const uint32_t inputs_of_both = AddSaturating(inputs(a.node), inputs(b.node));
  const bool one_index = shift == 0 && HasOneIndex(a.node) && HasOneIndex(b.node);
  const Node joined = {a.node, b.node, shift, turn, inputs_of_both, Kind::kJoin, 0, one_index};
  return {Find(joined, place), a.shift, a.turn};
}

NodeId Expressions::Finished(NodeId sum, const Place& place) {
  return Find({sum, 0, 0, 0, inputs(sum), Kind::kFinished, 0, HasOneIndex(sum)}, place);
}

bool Expressions::IsInput(Value value, uint32_t rank) const {
  return kind(value.node) == Kind::kInput && Turned(nodes_[value.node].a, value.turn) == rank;
}

bool Expressions::Uses(NodeId node, size_t limit, std::vector<Use>* out) const {
  std::vector<Value> open = {{node, 0, 0}};
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    const Node& part = nodes_[next.node];
    if (part.kind == Kind::kInput) {
      if (out->size() == limit) return false;
      out->push_back({Turned(part.a, next.turn), next.shift});
      continue;
    }
    if (part.kind == Kind::kJoin) open.push_back({part.b, next.shift + part.shift, Turned(part.turn, next.turn)});
    open.push_back({part.a, next.shift, next.turn});
  }
  return true;
}

bool Expressions::JoinsAll(NodeId node) {
  if (inputs(node) != ranks_) return false;
  uint8_t& known = nodes_[node].all;
  if (known != 0) return known == 1;
  known = 2;
  std::vector<Use> uses;
  if (!Uses(node, ranks_, &uses)) return false;
  std::vector<bool> seen(ranks_);
  for (const Use& use : uses) {
    if (use.offset != 0 || seen[use.rank]) return false;
    seen[use.rank] = true;
  }
  known = 1;
  return true;
}

bool Expressions::MatchesRange(NodeId node, uint32_t turn, uint32_t first, uint32_t count) const {
  while (nodes_[node].kind == Kind::kScaled || nodes_[node].kind == Kind::kFinished) node = nodes_[node].a;
  const Node& part = nodes_[node];
  if (count == 1) return IsInput({node, 0, turn}, first);
  if (part.kind != Kind::kJoin || part.shift != 0) return false;
  const uint32_t left = std::bit_floor(count - 1);
  return MatchesRange(part.a, turn, first, left) &&
         MatchesRange(part.b, Turned(part.turn, turn), first + left, count - left);
}

bool Expressions::JoinsAligned(Value value) const { return MatchesRange(value.node, value.turn, 0, ranks_); }

std::string Expressions::Nested(NodeId node, uint32_t turn, int64_t index) const {
  const Node& part = nodes_[node];
  switch (part.kind) {
    case Kind::kInput:
      return fmt::format("send{}[{}]", Turned(part.a, turn), index);
    case Kind::kScaled:
      return fmt::format("scaled {}", Nested(part.a, turn, index));
    case Kind::kFinished:
      return fmt::format("finished({})", Nested(part.a, turn, index));
    default:
      return fmt::format("({} {} {})", Nested(part.a, turn, index), sign_,
                         Nested(part.b, Turned(part.turn, turn), index + part.shift));
  }
}

std::string Expressions::Summary(NodeId node, uint32_t turn, int64_t index) const {
  std::vector<Use> uses;
  if (!Uses(node, kUsesLimit, &uses)) return fmt::format("a combination of {} inputs", inputs(node));
  std::map<Use, uint32_t> times;
  for (const Use& use : uses) ++times[{Turned(use.rank, turn), use.offset}];
  // By index and how often, so that the odd ones stand out.
  std::map<std::pair<int64_t, uint32_t>, std::vector<uint32_t>> groups;
  for (const auto& [use, count] : times) groups[{use.offset, count}].push_back(use.rank);
  std::string text;
  for (const auto& [group, ranks] : groups) {
    if (!text.empty()) text += " and ";
    text += fmt::format("send[{}] of rank{} {}", index + group.first, ranks.size() == 1 ? "" : "s", RangesText(ranks));
    if (group.second > 1) text += fmt::format(" {} times", group.second);
  }
  return fmt::format("the {} of {}", sign_, text);
}

std::string Expressions::ToText(Value value, int64_t index) const {
  if (inputs(value.node) > kNestedInputs) return Summary(value.node, value.turn, index);
  std::string text = Nested(value.node, value.turn, index);
  const bool in_brackets = nodes_[value.node].kind == Kind::kJoin;
  return in_brackets ? text.substr(1, text.size() - 2) : text;
}

// All at one index, no rank twice.
bool Expressions::IsSound(NodeId node) const {
  std::vector<Use> uses;
  if (inputs(node) > ranks_ || !Uses(node, kUsesLimit, &uses)) return false;
  std::sort(uses.begin(), uses.end());
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].offset != 0 || (i != 0 && uses[i] == uses[i - 1])) return false;
  }
  return true;
}

bool Expressions::FindFirstWrong(NodeId node, Place* out_place) const {
  if (IsSound(node)) return false;
  // Down to a node that is wrong although everything below it is right.
  for (bool deeper = true; deeper;) {
    deeper = false;
    const Node& part = nodes_[node];
    for (const NodeId below : {part.a, part.b}) {
      const bool exists = below == part.a || part.kind == Kind::kJoin;
      if (part.kind == Kind::kInput || !exists || IsSound(below)) continue;
      node = below;
      deeper = true;
      break;
    }
  }
  *out_place = places_[node];
  return true;
}

}  // namespace sl::verify

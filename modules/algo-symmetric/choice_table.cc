// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/choice_table.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

constexpr const char* kNames[kFamilies] = {
    "one-shot packets",         "two-shot packets",         "staged",      "direct",
    "one-shot Lamport packets", "two-shot Lamport packets", "bulk copies", "pushes"};
constexpr const char* kOptions[kFamilies] = {"one_shot",         "two_shot",         "staged", "direct",
                                             "lamport_one_shot", "lamport_two_shot", "bulk",   "push"};

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// What stands before the first of `ends`, which is taken off `text` together with it.
std::string_view TakeUpTo(std::string_view* text, const char* ends) {
  const size_t end = text->find_first_of(ends);
  const std::string_view taken = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
  return Trimmed(taken);
}

std::string_view TakeWord(std::string_view* text) {
  *text = Trimmed(*text);
  return TakeUpTo(text, " \t");
}

std::optional<uint64_t> NumberOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) return std::nullopt;
  return number;
}

Status Wrong(std::string_view where, const std::string& what) {
  return {SL_ERR_INVALID, "gpu_choices: \"" + std::string(where) + "\": " + what};
}

Result<Family> FamilyOf(std::string_view where, std::string_view name) {
  const auto* found = std::find(std::begin(kOptions), std::end(kOptions), name);
  if (found != std::end(kOptions)) return static_cast<Family>(found - std::begin(kOptions));
  std::string known;
  for (const char* option : kOptions) known += (known.empty() ? "" : ", ") + std::string(option);
  return Wrong(where, "\"" + std::string(name) + "\" is no family; use one of " + known);
}

// `family [bytes] [on blocks]`
Result<ChoiceTable::Entry> ParseEntry(std::string_view text) {
  const std::string_view where = text;
  SL_ASSIGN(const Family family, FamilyOf(where, TakeWord(&text)));
  ChoiceTable::Entry entry{UINT64_MAX, family, 0};
  std::string_view word = TakeWord(&text);
  if (!word.empty() && word != "on") {
    const std::optional<uint64_t> bytes = NumberOf(word);
    if (!bytes) return Wrong(where, "\"" + std::string(word) + "\" is no number of bytes");
    entry.most_bytes = *bytes;
    word = TakeWord(&text);
  }
  if (word == "on") {
    const std::string_view count = TakeWord(&text);
    const std::optional<uint64_t> blocks = NumberOf(count);
    if (!blocks || *blocks > UINT32_MAX) return Wrong(where, "\"" + std::string(count) + "\" is no number of SMs");
    entry.blocks = static_cast<uint32_t>(*blocks);
    word = TakeWord(&text);
  }
  if (!word.empty()) return Wrong(where, "\"" + std::string(word) + "\" is too much; say FAMILY [BYTES] [on SMS]");
  return entry;
}

}  // namespace

const char* FamilyName(Family family) { return kNames[static_cast<uint32_t>(family)]; }
const char* FamilyOption(Family family) { return kOptions[static_cast<uint32_t>(family)]; }

Result<ChoiceTable::Row> ChoiceTable::ParseRow(std::string_view text) {
  const std::string_view where = text;
  std::string_view head = TakeUpTo(&text, ":");
  const std::string_view name = TakeWord(&head);
  Row row{};
  while (row.kind < SL_OP_SEND && OpKindName(row.kind) != name) ++row.kind;
  if (row.kind == SL_OP_SEND) return Wrong(where, "\"" + std::string(name) + "\" is no collective");
  const std::optional<uint64_t> ranks = NumberOf(TakeWord(&head));
  if (!ranks || *ranks > UINT32_MAX || !head.empty()) return Wrong(where, "a row begins with OPERATION RANKS:");
  row.ranks = static_cast<uint32_t>(*ranks);
  text = Trimmed(text);
  while (!text.empty()) {
    SL_ASSIGN(const Entry entry, ParseEntry(TakeUpTo(&text, ",")));
    if (!row.entries.empty() && entry.most_bytes <= row.entries.back().most_bytes) {
      return Wrong(where, "sizes go upwards, and only the last family of a row goes without");
    }
    row.entries.push_back(entry);
  }
  if (row.entries.empty() || row.entries.back().most_bytes != UINT64_MAX) {
    return Wrong(where, "the last family of a row goes without a size: it serves all that is longer");
  }
  return row;
}

Result<ChoiceTable> ChoiceTable::Parse(std::string_view text) {
  ChoiceTable table;
  while (!text.empty()) {
    const std::string_view line = TakeUpTo(&text, ";\n");
    if (line.empty()) continue;
    SL_ASSIGN(Row row, ParseRow(line));
    const bool again = std::any_of(table.rows_.begin(), table.rows_.end(), [&](const Row& other) {
      return other.kind == row.kind && other.ranks == row.ranks;
    });
    if (again) return Wrong(line, "there is such a row already");
    table.rows_.push_back(std::move(row));
  }
  return table;
}

const ChoiceTable::Entry* ChoiceTable::Find(sl_op_kind_t kind, uint32_t ranks, uint64_t bytes) const {
  for (const Row& row : rows_) {
    if (row.kind != kind || row.ranks != ranks) continue;
    const auto* entry = row.entries.data();
    while (bytes > entry->most_bytes) ++entry;
    return entry;
  }
  return nullptr;
}

}  // namespace sl::algo_symmetric

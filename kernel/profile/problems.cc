// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/profile/settings.h"
#include "kernel/profile/value.h"
#include "sdk/datatype.h"

namespace sl::kernel {

const char* TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return node.is_array_of_tables() ? "an array of tables" : "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

std::string Problems::At(const toml::source_region& source) const {
  return fmt::format("{}:{}:{}", file_, source.begin.line, source.begin.column);
}

void Problems::Add(const toml::source_region& source, const std::string& what) {
  problems_.push_back({source.begin.line, source.begin.column, At(source) + ": " + what});
}

void Problems::Add(const toml::source_region& source, const Status& status) {
  problems_.push_back({source.begin.line, source.begin.column, status.message()});
}

Status Problems::ToStatus() {
  if (problems_.empty()) return Status();
  std::sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  });
  std::string message;
  for (const Problem& problem : problems_) message += (message.empty() ? "" : "\n") + problem.text;
  return Status(SL_ERR_CONFIG, message);
}

void ReadText(const std::string& name, const toml::node& node, std::string* out, Problems* problems) {
  if (const auto* text = node.as_string()) {
    *out = text->get();
  } else {
    problems->Add(node.source(), fmt::format("{} must be a string, not {}", name, TypeName(node)));
  }
}

void ReadCount(const std::string& name, const toml::node& node, uint64_t minimum, uint64_t maximum, uint64_t* out,
               Problems* problems) {
  const auto* value = node.as_integer();
  if (value == nullptr) {
    return problems->Add(node.source(), fmt::format("{} must be an integer, not {}", name, TypeName(node)));
  }
  if (value->get() < 0 || static_cast<uint64_t>(value->get()) < minimum ||
      static_cast<uint64_t>(value->get()) > maximum) {
    return problems->Add(node.source(),
                         fmt::format("{} is {}, but must be {} to {}", name, value->get(), minimum, maximum));
  }
  *out = static_cast<uint64_t>(value->get());
}

void ReadOpName(const std::string& name, const toml::node& node, uint32_t* out_kind, Problems* problems) {
  const auto* text = node.as_string();
  if (text == nullptr) {
    return problems->Add(node.source(), fmt::format("{} must be an operation's name, not {}", name, TypeName(node)));
  }
  std::vector<std::string> known;
  for (sl_op_kind_t kind = 0; kind < SL_OP_KIND_COUNT; ++kind) known.emplace_back(OpKindName(kind));
  const auto found = std::find(known.begin(), known.end(), text->get());
  if (found == known.end()) {
    return problems->Add(node.source(),
                         fmt::format("unknown operation {}{}", text->get(), NearestHint(text->get(), known)));
  }
  *out_kind = static_cast<uint32_t>(found - known.begin());
}

void ReadDeviceKind(const std::string& name, const toml::node& node, uint32_t* out_kind, Problems* problems) {
  std::string text;
  ReadText(name, node, &text, problems);
  if (!node.is_string()) return;
  const std::vector<std::string> known(kDeviceKindNames.begin(), kDeviceKindNames.end());
  const auto found = std::find(known.begin(), known.end(), text);
  if (found == known.end()) {
    return problems->Add(node.source(),
                         fmt::format("{} is \"{}\", but must be one of {}", name, text, fmt::join(known, ", ")));
  }
  *out_kind = static_cast<uint32_t>(found - known.begin());
}

}  // namespace sl::kernel

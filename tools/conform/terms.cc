// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/terms.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "sdk/toml_depth.h"
#include "tools/starling/bench_error.h"

namespace sl::conform {
namespace {

using tools::CommandError;
using tools::kExitUsage;

constexpr size_t kMostLevels = 256;

[[noreturn]] void Refuse(const std::string& path, const toml::source_region& at, const std::string& what) {
  throw CommandError(kExitUsage, fmt::format("{}:{}:{}: {}", path, at.begin.line, at.begin.column, what));
}

std::string TextOf(const std::string& path, const toml::table& table, const char* key) {
  const toml::node* node = table.get(key);
  const auto text = node != nullptr ? node->value<std::string>() : std::nullopt;
  if (!text || text->empty()) {
    Refuse(path, node != nullptr ? node->source() : table.source(),
           fmt::format("an exclusion needs {} = \"…\" with some text", key));
  }
  return *text;
}

Exclusion ReadOne(const std::string& path, const toml::table& table) {
  for (const auto& [key, value] : table) {
    if (key != "test" && key != "kind" && key != "reason") {
      Refuse(path, value.source(), fmt::format("unknown key {}; there are test, kind, reason", key.str()));
    }
  }
  Exclusion exclusion;
  exclusion.test = TextOf(path, table, "test");
  exclusion.reason = TextOf(path, table, "reason");
  const std::string kind = TextOf(path, table, "kind");
  if (kind == "expected_failure") {
    exclusion.kind = ExclusionKind::kExpectedFailure;
  } else if (kind != "unsupported") {
    Refuse(path, table.get("kind")->source(),
           fmt::format("kind is \"{}\", must be \"unsupported\" or \"expected_failure\"", kind));
  }
  return exclusion;
}

toml::table ReadToml(const char* option, const std::string& path) {
  // A folder reads as an empty file, and a FIFO would be waited for.
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::is_regular_file(status)) {
    throw CommandError(kExitUsage, fmt::format("{} {}: {}", option, path,
                                               error ? error.message() : "not a regular file; give one in TOML"));
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.fail()) throw CommandError(kExitUsage, fmt::format("{} {}: cannot be read", option, path));
  if (const size_t line = LineOfDeepKey(text, kMostLevels); line != 0) {
    throw CommandError(kExitUsage, fmt::format("{}:{}:1: a key more than {} levels deep", path, line, kMostLevels));
  }
  toml::parse_result document = toml::parse(text, path);
  if (document.failed()) Refuse(path, document.error().source(), std::string(document.error().description()));
  return std::move(document).table();
}

std::string ReadName(const std::string& path, const toml::node& node) {
  const auto name = node.value<std::string>();
  if (!name || name->empty()) Refuse(path, node.source(), "with is a list of names of modules");
  return *name;
}

}  // namespace

Terms ReadTerms(const std::string& path) {
  const toml::table document = ReadToml("--exclusions", path);
  Terms terms;
  for (const auto& [key, value] : document) {
    const toml::array* array = value.as_array();
    if ((key != "exclude" && key != "with") || array == nullptr) {
      Refuse(path, value.source(),
             fmt::format("unknown key {}; there are with = […] and [[exclude]] tables", key.str()));
    }
    for (const toml::node& node : *array) {
      if (key == "with") {
        terms.with.push_back(ReadName(path, node));
        continue;
      }
      if (!node.is_table()) Refuse(path, node.source(), "an exclusion is an [[exclude]] table");
      terms.exclusions.push_back(ReadOne(path, *node.as_table()));
    }
  }
  return terms;
}

std::vector<std::pair<std::string, std::string>> ReadOptions(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> options;
  for (const auto& [key, value] : ReadToml("--options", path)) {
    const std::string name(key.str());
    if (const auto* text = value.as_string(); text != nullptr) {
      options.emplace_back(name, text->get());
    } else if (const auto* flag = value.as_boolean(); flag != nullptr) {
      options.emplace_back(name, flag->get() ? "true" : "false");
    } else if (const auto* integer = value.as_integer(); integer != nullptr) {
      options.emplace_back(name, std::to_string(integer->get()));
    } else if (const auto* real = value.as_floating_point(); real != nullptr) {
      options.emplace_back(name, fmt::format("{}", real->get()));
    } else {
      Refuse(path, value.source(), fmt::format("{} is no value of an option; write name = value lines", name));
    }
  }
  return options;
}

std::pair<std::string, std::string> ParseOption(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0) {
    throw CommandError(kExitUsage, fmt::format("--set {}: write name=value", text));
  }
  return {text.substr(0, sign), text.substr(sign + 1)};
}

const Exclusion* FindExclusion(const std::vector<Exclusion>& exclusions, const std::string& test) {
  const auto found = std::find_if(exclusions.begin(), exclusions.end(),
                                  [&](const Exclusion& exclusion) { return Matches(exclusion.test, test); });
  return found != exclusions.end() ? &*found : nullptr;
}

std::vector<std::string> IdleExclusions(const std::vector<Exclusion>& exclusions, const std::vector<Case>& cases) {
  std::vector<std::string> idle;
  for (const Exclusion& exclusion : exclusions) {
    const bool names_one =
        std::any_of(cases.begin(), cases.end(), [&](const Case& one) { return Matches(exclusion.test, one.name); });
    if (!names_one) idle.push_back(exclusion.test);
  }
  return idle;
}

}  // namespace sl::conform

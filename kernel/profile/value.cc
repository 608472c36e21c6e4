// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/value.h"

#include <fmt/format.h>

#include <strings.h>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace sl::kernel {
namespace {

const char* WantedType(sl_option_type_t type) {
  switch (type) {
    case SL_OPTION_BOOL:
      return "true or false";
    case SL_OPTION_INT:
      return "an integer";
    case SL_OPTION_FLOAT:
      return "a number";
    default:
      return "a string";
  }
}

// A bound as a person writes it: whole numbers without an exponent.
std::string Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e18) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

std::string UnitSuffix(const sl_option_t& option) {
  return option.unit == nullptr || *option.unit == '\0' ? std::string() : std::string(" ") + option.unit;
}

Status WrongType(const sl_option_t& option, const std::string& name, const std::string& place, const std::string& got) {
  const bool counts = option.type == SL_OPTION_INT || option.type == SL_OPTION_FLOAT;
  const std::string unit = counts && !UnitSuffix(option).empty() ? " of" + UnitSuffix(option) : "";
  return Status(SL_ERR_CONFIG,
                fmt::format("{}: {} must be {}{}, not {}", place, name, WantedType(option.type), unit, got));
}

Status CheckRange(const sl_option_t& option, const std::string& name, const OptionValue& value) {
  if (option.type == SL_OPTION_CHOICE) {
    const std::vector<std::string> choices = SplitList(option.choices == nullptr ? "" : option.choices);
    if (std::find(choices.begin(), choices.end(), value.text) != choices.end()) return Status();
    return Status(SL_ERR_CONFIG, fmt::format("{}: {} is \"{}\", but must be one of {}", value.place, name, value.text,
                                             fmt::join(choices, ", ")));
  }
  if (option.type != SL_OPTION_INT && option.type != SL_OPTION_FLOAT) return Status();
  const bool whole = option.type == SL_OPTION_INT;
  const double number = whole ? static_cast<double>(value.integer) : value.real;
  if (number >= option.minimum && number <= option.maximum) return Status();
  return Status(SL_ERR_CONFIG, fmt::format("{}: {} is {}{}, but must be {} to {}{}", value.place, name,
                                           whole ? fmt::to_string(value.integer) : Number(number), UnitSuffix(option),
                                           Number(option.minimum), Number(option.maximum), UnitSuffix(option)));
}

bool ParseBool(std::string_view text, int64_t* out_value) {
  const std::string word(text);
  for (const char* yes : {"1", "true", "on", "yes"}) {
    if (strcasecmp(yes, word.c_str()) == 0) return *out_value = 1, true;
  }
  for (const char* no : {"0", "false", "off", "no"}) {
    if (strcasecmp(no, word.c_str()) == 0) return *out_value = 0, true;
  }
  return false;
}

template <typename Number>
bool ParseNumber(std::string_view text, Number* out_value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *out_value);
  return error == std::errc() && rest == end;
}

// TOML wants a point or an exponent, and digits on both sides of a point: fmt's '#' would write 1.e+20.
std::string FloatToml(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t replace = diagonal + (std::tolower(a[i - 1]) == std::tolower(b[j - 1]) ? 0 : 1);
      row[j] = std::min({replace, above + 1, row[j - 1] + 1});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const char* OriginName(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kProfile:
      return "profile";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kApi:
      return "API";
  }
  return "unknown";
}

Result<OptionValue> CheckValue(const sl_option_t& option, const std::string& name, const RawValue& raw) {
  OptionValue value;
  value.type = option.type;
  value.origin = Origin::kProfile;
  value.place = raw.place;
  value.integer = raw.integer;
  value.real = raw.kind == RawValue::Kind::kInt ? static_cast<double>(raw.integer) : raw.real;
  value.text = raw.text;
  bool fits = false;
  switch (option.type) {
    case SL_OPTION_BOOL:
      fits = raw.kind == RawValue::Kind::kBool;
      break;
    case SL_OPTION_INT:
      fits = raw.kind == RawValue::Kind::kInt;
      break;
    case SL_OPTION_FLOAT:
      fits = raw.kind == RawValue::Kind::kFloat || raw.kind == RawValue::Kind::kInt;
      break;
    default:
      fits = raw.kind == RawValue::Kind::kString;
      break;
  }
  if (!fits) return WrongType(option, name, raw.place, raw.type_name);
  SL_TRY(CheckRange(option, name, value));
  return value;
}

Result<OptionValue> ParseValue(const sl_option_t& option, const std::string& name, std::string_view text, Origin origin,
                               const std::string& place) {
  OptionValue value;
  value.type = option.type;
  value.origin = origin;
  value.place = place;
  bool fits = true;
  switch (option.type) {
    case SL_OPTION_BOOL:
      fits = ParseBool(text, &value.integer);
      break;
    case SL_OPTION_INT:
      fits = ParseNumber(text, &value.integer);
      value.real = static_cast<double>(value.integer);
      break;
    case SL_OPTION_FLOAT:
      fits = ParseNumber(text, &value.real);
      break;
    default:
      value.text = text;
      break;
  }
  if (!fits) return WrongType(option, name, place, fmt::format("\"{}\"", text));
  SL_TRY(CheckRange(option, name, value));
  return value;
}

std::string VariableName(std::string_view section, std::string_view key) {
  std::string name = "STARLING_";
  if (!section.empty()) name.append(section).append("_");
  name.append(key);
  for (char& c : name) c = c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string QuoteToml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ToToml(const OptionValue& value) {
  switch (value.type) {
    case SL_OPTION_BOOL:
      return value.integer != 0 ? "true" : "false";
    case SL_OPTION_INT:
      return fmt::format("{}", value.integer);
    case SL_OPTION_FLOAT:
      return FloatToml(value.real);
    default:
      return QuoteToml(value.text);
  }
}

std::string DescribeType(const sl_option_t& option) {
  const std::string unit = UnitSuffix(option);
  switch (option.type) {
    case SL_OPTION_BOOL:
      return "bool";
    case SL_OPTION_INT:
      return fmt::format("integer, {} to {}{}", Number(option.minimum), Number(option.maximum), unit);
    case SL_OPTION_FLOAT:
      return fmt::format("number, {} to {}{}", Number(option.minimum), Number(option.maximum), unit);
    case SL_OPTION_CHOICE:
      return fmt::format("one of {}", fmt::join(SplitList(option.choices), ", "));
    default:
      return "string";
  }
}

std::string NearestName(std::string_view word, const std::vector<std::string>& known) {
  size_t best = std::max<size_t>(2, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : known) {
    const size_t distance = EditDistance(word, name);
    if (distance < best && distance < name.size()) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string NearestHint(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(word, known);
  if (!nearest.empty()) return fmt::format("; nearest is {}", nearest);
  return known.empty() ? std::string() : fmt::format("; known are {}", fmt::join(known, ", "));
}

std::vector<std::string> SplitList(std::string_view list, char separator) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const size_t end = list.find(separator);
    std::string_view word = list.substr(0, end);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return words;
}

}  // namespace sl::kernel

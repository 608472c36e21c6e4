// SPDX-License-Identifier: Apache-2.0
//
// Values of options: raw, as a profile or the environment states them, and checked against an option's declaration
// (sl_option_t), which is the same for the kernel's own keys and for those of modules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/status.h"
#include "sl_module.h"

namespace sl::kernel {

// Where a value comes from, lowest precedence first.
enum class Origin : uint8_t { kDefault, kProfile, kEnvironment, kApi };
const char* OriginName(Origin origin);

// A value as written, before anything is known about its option.
struct RawValue {
  enum class Kind : uint8_t { kBool, kInt, kFloat, kString, kOther };
  Kind kind = Kind::kOther;
  int64_t integer = 0;
  double real = 0;
  std::string text;       // kString
  std::string type_name;  // for messages: "a string", "an array", …
  std::string place;      // "file:line:column"
};

// A value that fits its option.
struct OptionValue {
  sl_option_type_t type = SL_OPTION_STRING;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  Origin origin = Origin::kDefault;
  std::string place;
};

// Checks a profile's value. Errors are "place: name must be …", SL_ERR_CONFIG. `name` is the key in full.
Result<OptionValue> CheckValue(const sl_option_t& option, const std::string& name, const RawValue& raw);

// Checks a text: an environment variable's, or an option's default. `place` begins the error's text.
Result<OptionValue> ParseValue(const sl_option_t& option, const std::string& name, std::string_view text, Origin origin,
                               const std::string& place);

// The environment variable of a key: STARLING_<SECTION>_<KEY>, upper case, '-' and '.' become '_'.
std::string VariableName(std::string_view section, std::string_view key);

// The value as TOML.
std::string ToToml(const OptionValue& value);
std::string QuoteToml(std::string_view text);

// "integer, 1 to 86400000 ms": type, range and unit of an option in words.
std::string DescribeType(const sl_option_t& option);

// The one of `known` that `word` is most likely to mean; "" when none is near.
std::string NearestName(std::string_view word, const std::vector<std::string>& known);
// "; nearest is `x`" or, when none is near, "; known are a, b, c"; "" when nothing is known.
std::string NearestHint(std::string_view word, const std::vector<std::string>& known);

// Comma-separated words.
std::vector<std::string> SplitList(std::string_view list, char separator = ',');

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Option tables: declare each option once with one of the constructors below, read its effective value by position.
#pragma once

#include <cstdint>
#include <string>

#include "sl_module.h"

namespace sl {

constexpr sl_option_t BoolOption(const char* name, const char* doc, const char* default_text) {
  return {sizeof(sl_option_t), SL_OPTION_BOOL, name, "", doc, default_text, 0, 1, nullptr};
}
constexpr sl_option_t IntOption(const char* name, const char* unit, const char* doc, const char* default_text,
                                double minimum, double maximum) {
  return {sizeof(sl_option_t), SL_OPTION_INT, name, unit, doc, default_text, minimum, maximum, nullptr};
}
constexpr sl_option_t FloatOption(const char* name, const char* unit, const char* doc, const char* default_text,
                                  double minimum, double maximum) {
  return {sizeof(sl_option_t), SL_OPTION_FLOAT, name, unit, doc, default_text, minimum, maximum, nullptr};
}
constexpr sl_option_t StringOption(const char* name, const char* doc, const char* default_text) {
  return {sizeof(sl_option_t), SL_OPTION_STRING, name, "", doc, default_text, 0, 0, nullptr};
}
// `choices` is comma-separated, without blanks.
constexpr sl_option_t ChoiceOption(const char* name, const char* doc, const char* default_text, const char* choices) {
  return {sizeof(sl_option_t), SL_OPTION_CHOICE, name, "", doc, default_text, 0, 0, choices};
}

// Reads the values of open(); an index is the option's position in the module's table. The kernel has already checked
// types and ranges.
class OptionReader {
 public:
  explicit OptionReader(const sl_open_args_t* args) : args_(args) {}
  bool Bool(uint32_t index) const { return args_->options[index]->integer != 0; }
  int64_t Int(uint32_t index) const { return args_->options[index]->integer; }
  double Float(uint32_t index) const { return args_->options[index]->real; }
  std::string String(uint32_t index) const { return args_->options[index]->text; }

 private:
  const sl_open_args_t* args_;
};

}  // namespace sl

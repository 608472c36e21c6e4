// SPDX-License-Identifier: Apache-2.0
//
// What is wrong with a TOML text, collected while its parts are read. Private to this floor.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/status.h"

namespace sl::kernel {

// "a string", "an array of tables", …: what a node is, for messages.
const char* TypeName(const toml::node& node);

class Problems {
 public:
  // `file` names the text in messages.
  explicit Problems(std::string file) : file_(std::move(file)) {}

  const std::string& file() const { return file_; }
  // "file:line:column"
  std::string At(const toml::source_region& source) const;

  void Add(const toml::source_region& source, const std::string& what);
  // The text of a failed check already begins with its place.
  void Add(const toml::source_region& source, const Status& status);

  // All problems in the order of the file, one a line.   returns: SL_OK | SL_ERR_CONFIG
  Status ToStatus();

 private:
  struct Problem {
    uint32_t line;
    uint32_t column;
    std::string text;
  };

  const std::string file_;
  std::vector<Problem> problems_;
};

// Values of single keys; `name` is the key in full. What does not fit is added to `problems`, and *out keeps its value.
void ReadText(const std::string& name, const toml::node& node, std::string* out, Problems* problems);
void ReadCount(const std::string& name, const toml::node& node, uint64_t minimum, uint64_t maximum, uint64_t* out,
               Problems* problems);
void ReadOpName(const std::string& name, const toml::node& node, uint32_t* out_kind, Problems* problems);
void ReadDeviceKind(const std::string& name, const toml::node& node, uint32_t* out_kind, Problems* problems);

}  // namespace sl::kernel

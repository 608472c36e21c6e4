// SPDX-License-Identifier: Apache-2.0
// The profile that a tuning writes into, and files beside it meanwhile.
#pragma once

#include <string>
#include <vector>

namespace sl::tools {

// What stands in the profile, or a new one's first lines when it is not there. Throws CommandError.
std::string ProfileText(const std::string& profile);

// The date of today in UTC, as 2026-11-21.
std::string Today();

// Files beside the profile, so that relative paths in it hold; they go away with the object.
class Scratch {
 public:
  explicit Scratch(const std::string& profile);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // Its path. Throws CommandError (failure).
  std::string Add(const std::string& name, const std::string& text);
  // The profile becomes `rest`, then `section`. A reader sees the old file or the new one, never half of it. Throws
  // CommandError (failure).
  void Replace(const std::string& rest, const std::string& section);

 private:
  const std::string profile_;
  const std::string prefix_;
  std::vector<std::string> paths_;
};

}  // namespace sl::tools

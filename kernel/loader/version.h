// SPDX-License-Identifier: Apache-2.0
//
// Versions of modules and the constraints a profile puts on them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/status.h"

namespace sl::kernel {

// A semantic version: "1.2.0", or "1.2.0-rc1", which comes before "1.2.0".
struct Version {
  std::array<uint32_t, 3> parts{};
  std::string prerelease;
  uint32_t stated = 0;  // how many parts the text had; not compared

  static Result<Version> Parse(std::string_view text);
  std::string ToString() const;
};
std::strong_ordering operator<=>(const Version& a, const Version& b);
inline bool operator==(const Version& a, const Version& b) { return (a <=> b) == std::strong_ordering::equal; }

// Comma-separated conditions, all of which must hold: ">=1.2", ">1", "<=2", "<2", "=1.2.3" (or "1.2.3"; "=1.2" is any
// 1.2.x), "^1.2" (1.2 or later with the same first part that is not 0).
class VersionConstraint {
 public:
  static Result<VersionConstraint> Parse(std::string_view text);  // "" allows everything
  bool Allows(const Version& version) const;

 private:
  struct Condition {
    std::string op;
    Version version;
  };
  std::vector<Condition> conditions_;
};

}  // namespace sl::kernel

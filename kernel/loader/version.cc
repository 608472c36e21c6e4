// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/version.h"

#include <fmt/format.h>

#include <charconv>

#include "kernel/profile/value.h"

namespace sl::kernel {
namespace {

// Whether `version` begins with the parts `prefix` states.
bool BeginsWith(const Version& version, const Version& prefix) {
  for (uint32_t i = 0; i < prefix.stated; ++i) {
    if (version.parts[i] != prefix.parts[i]) return false;
  }
  return prefix.stated < 3 || version.prerelease == prefix.prerelease;
}

bool Compatible(const Version& version, const Version& base) {
  if (version < base) return false;
  for (size_t i = 0; i < base.parts.size(); ++i) {
    if (version.parts[i] != base.parts[i]) return false;
    if (base.parts[i] != 0) return true;
  }
  return true;
}

}  // namespace

Result<Version> Version::Parse(std::string_view text) {
  const Status bad(SL_ERR_CONFIG, fmt::format("\"{}\" is no version; write it like 1.2.0", text));
  Version version;
  std::string_view numbers = text;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    numbers = text.substr(0, dash);
    version.prerelease = text.substr(dash + 1);
    if (version.prerelease.empty()) return bad;
  }
  const char* next = numbers.data();
  const char* const end = next + numbers.size();
  while (true) {
    if (version.stated == version.parts.size()) return bad;
    const auto [rest, error] = std::from_chars(next, end, version.parts[version.stated]);
    if (error != std::errc()) return bad;
    ++version.stated;
    if (rest == end) return version;
    if (*rest != '.') return bad;
    next = rest + 1;
  }
}

std::string Version::ToString() const {
  const std::string numbers = fmt::format("{}.{}.{}", parts[0], parts[1], parts[2]);
  return prerelease.empty() ? numbers : numbers + "-" + prerelease;
}

std::strong_ordering operator<=>(const Version& a, const Version& b) {
  if (a.parts != b.parts) return a.parts <=> b.parts;
  if (a.prerelease.empty() != b.prerelease.empty()) {
    return a.prerelease.empty() ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  return a.prerelease <=> b.prerelease;
}

Result<VersionConstraint> VersionConstraint::Parse(std::string_view text) {
  VersionConstraint constraint;
  for (const std::string& word : SplitList(text)) {
    const size_t digits = word.find_first_of("0123456789");
    std::string op = word.substr(0, digits);
    while (!op.empty() && op.back() == ' ') op.pop_back();
    if (op.empty()) op = "=";
    const bool known = op == ">=" || op == ">" || op == "<=" || op == "<" || op == "=" || op == "^";
    if (!known || digits == std::string::npos) {
      return Status(SL_ERR_CONFIG, fmt::format("\"{}\" is no version constraint; write it like \">=1.2\", \"^1.2\", "
                                               "\"=1.2.3\" or \">=1.2, <2\"",
                                               text));
    }
    SL_ASSIGN(Version version, Version::Parse(std::string_view(word).substr(digits)));
    constraint.conditions_.push_back({op, version});
  }
  return constraint;
}

bool VersionConstraint::Allows(const Version& version) const {
  for (const Condition& condition : conditions_) {
    bool holds = false;
    if (condition.op == ">=") holds = version >= condition.version;
    if (condition.op == ">") holds = version > condition.version;
    if (condition.op == "<=") holds = version <= condition.version;
    if (condition.op == "<") holds = version < condition.version;
    if (condition.op == "=") holds = BeginsWith(version, condition.version);
    if (condition.op == "^") holds = Compatible(version, condition.version);
    if (!holds) return false;
  }
  return true;
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// On which terms a module is tried: a TOML file beside it says with what, and what it is excused from, and why.
//
//   with = ["algo-ring"]                 # modules to prefer as companions, where they are there
//
//   [[exclude]]
//   test = "device/host/Capture.*"       # a name as `starling conform --list` prints it; * stands for anything
//   kind = "unsupported"                 # not run; or "expected_failure": run, and must fail under --strict
//   reason = "the host has no graphs"    # mandatory
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/conform/catalog.h"

namespace sl::conform {

enum class ExclusionKind { kUnsupported, kExpectedFailure };

struct Exclusion {
  std::string test;
  ExclusionKind kind = ExclusionKind::kUnsupported;
  std::string reason;
};

struct Terms {
  std::vector<std::string> with;  // names of modules
  std::vector<Exclusion> exclusions;
};

// Throws CommandError (usage) with file:line:column when the file cannot be read or says something else.
Terms ReadTerms(const std::string& path);

// Options of a module: a TOML file of `name = value` lines, as below [modules.<name>.options] of a profile.
std::vector<std::pair<std::string, std::string>> ReadOptions(const std::string& path);
// One of them from the command line, "name=value".
std::pair<std::string, std::string> ParseOption(const std::string& text);

// The first exclusion that names the test; NULL when none does.
const Exclusion* FindExclusion(const std::vector<Exclusion>& exclusions, const std::string& test);

// Patterns that name no test of `cases`.
std::vector<std::string> IdleExclusions(const std::vector<Exclusion>& exclusions, const std::vector<Case>& cases);

}  // namespace sl::conform

// SPDX-License-Identifier: Apache-2.0
//
// What came of a run, for people, for programs (JSON) and for build servers (JUnit's XML).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/conform/runner.h"

namespace sl::conform {

struct RunReport {
  ModuleFacts facts;
  std::string path;
  std::vector<std::pair<std::string, std::string>> options;  // of the module, as set
  std::vector<std::string> companions;                       // that were named
  uint64_t seed = 1;
  bool strict = false;
  bool full = false;
  std::vector<CaseResult> results;
  std::vector<std::string> idle_exclusions;  // that name no test; a failure under --strict

  size_t Count(Verdict verdict) const;
  bool IsGood() const;
};

const char* NameOf(Verdict verdict);  // "passed", "failed", …

// The line or lines of one test; `verbose` shows tests that are in order, too.
std::string LinesOf(const CaseResult& result, bool verbose);
// The last lines: counts, idle exclusions, how to run a failure again.
std::string SummaryOf(const RunReport& report);
std::string ToJson(const RunReport& report);
std::string ToJUnit(const RunReport& report);

}  // namespace sl::conform

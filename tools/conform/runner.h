// SPDX-License-Identifier: Apache-2.0
//
// Runs tests in processes of their own, several at once, and stays with them: a test that crashes, hangs or leaves
// processes behind has failed, and nothing of it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/conform/catalog.h"
#include "tools/conform/terms.h"

namespace sl::conform {

enum class Verdict {
  kPassed,
  kFailed,
  kSkipped,             // for want of hardware, or of something optional the module does not offer
  kExcluded,            // the exclusions say unsupported; not run
  kFailedAsExpected,    // the exclusions say so
  kPassedUnexpectedly,  // a failure under --strict
};

struct CaseResult {
  std::string name;
  std::string about;
  Verdict verdict = Verdict::kFailed;
  std::vector<std::string> messages;  // of failures, or the reason of a skip or an exclusion
  std::string output;                 // what the process printed, its end
  uint64_t milliseconds = 0;
};

struct RunSettings {
  Assignment assignment;
  int jobs = 1;
};

// What the module says about itself, read by a process of its own. Throws CommandError (failure) saying what went
// wrong.
ModuleFacts ReadFacts(const RunSettings& settings);

// Runs the cases; results come in the order of `cases`. `on_result` hears of each as it ends.
std::vector<CaseResult> RunCases(const RunSettings& settings, const std::vector<Case>& cases,
                                 const std::vector<Exclusion>& exclusions,
                                 const std::function<void(const CaseResult&)>& on_result);

}  // namespace sl::conform

// SPDX-License-Identifier: Apache-2.0
//
// Where broken rules go: counted, and said in one line that names the rule, the header's words, the call, the object
// and the threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <string>

#include "modules/checker/rules.h"
#include "sl_host.h"

namespace sl::checker {

struct Call;
struct Object;

// thread: any. Nothing here is called while all rules hold.
class Reporter {
 public:
  enum class Mode : uint8_t { kAbort, kError, kLog };

  Reporter(const sl_host_t* host, Mode mode, uint64_t lines_per_rule)
      : host_(host), mode_(mode), lines_per_rule_(lines_per_rule) {}

  // Reports one breach. `object` may be NULL. In mode abort it does not return; in mode error it sets the thread's
  // error text.   returns: what a refused call returns, or SL_OK where the call goes on
  sl_status_t Report(RuleId rule, const Call& call, const Object* object, const char* format, va_list details);

  uint64_t broken(RuleId rule) const { return counts_[static_cast<size_t>(rule)].load(std::memory_order_relaxed); }
  uint64_t total() const;
  // "3 breaches: overlap 2, signal-shrinks 1"; "" when there were none.
  std::string Summary() const;

  const sl_host_t* host() const { return host_; }
  Mode mode() const { return mode_; }

 private:
  const sl_host_t* const host_;
  const Mode mode_;
  const uint64_t lines_per_rule_;  // further breaches of a rule are only counted
  std::array<std::atomic<uint64_t>, kRuleCount> counts_ = {};
};

}  // namespace sl::checker

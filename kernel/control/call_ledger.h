// SPDX-License-Identifier: Apache-2.0
//
// What ranks say they have called, by the number of the collective. Ranks of one host see each other's log of calls
// (op_log.h); those of several tell, once they wait in vain, and whoever passes it on compares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace sl::kernel {

struct Call {
  uint64_t sequence;   // from 1
  uint64_t signature;  // kernel/plan/signature.h
  uint32_t rank;
  uint32_t algorithm;  // AlgorithmTag of what it has chosen for it; 0: nothing yet
};

class CallLedger {
 public:
  // The newest ones are kept, whatever comes: a rank that far ahead of others waits for them long before.
  static constexpr size_t kMaxCalls = 256;

  // True when it is news: nobody has told of that number or of what was chosen for it, or somebody of something else.
  bool Enter(const Call& call);
  // Two calls under one number that differ; the first ones that were found stay.
  const std::optional<std::pair<Call, Call>>& mismatch() const { return mismatch_; }

 private:
  std::map<uint64_t, Call> calls_;
  std::optional<std::pair<Call, Call>> mismatch_;
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/call_ledger.h"

namespace sl::kernel {

bool CallLedger::Enter(const Call& call) {
  const auto [known, is_new] = calls_.emplace(call.sequence, call);
  if (is_new) {
    if (calls_.size() <= kMaxCalls) return true;
    const bool is_oldest = known == calls_.begin();
    calls_.erase(calls_.begin());
    return !is_oldest;
  }
  Call& before = known->second;
  if (mismatch_) return false;
  const bool is_alike = before.signature == call.signature;
  if (is_alike && (call.algorithm == 0 || before.algorithm == call.algorithm)) return false;
  if (is_alike && before.algorithm == 0) {
    before = call;
  } else {
    mismatch_ = {before, call};
  }
  return true;
}

}  // namespace sl::kernel

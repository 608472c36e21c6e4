// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/call_ledger.h"

namespace sl::kernel {

bool CallLedger::Enter(const Call& call) {
  const auto [known, is_new] = calls_.emplace(call.sequence, call);
  if (is_new) {
    if (calls_.size() <= kMaxCalls) return true;
    const bool is_oldest = known == calls_.begin();
    calls_.erase(calls_.begin());
    return !is_oldest;
  }
  if (known->second.signature == call.signature || mismatch_) return false;
  mismatch_ = {known->second, call};
  return true;
}

}  // namespace sl::kernel

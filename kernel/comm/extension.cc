// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/extension.h"

#include <algorithm>

namespace sl::kernel {

Result<std::unique_ptr<Extension>> Extension::Open(Switchboard* switchboard, const Secret& secret) {
  std::unique_ptr<Extension> opened(new Extension(switchboard));
  uint64_t number = 0;
  FillRandom({reinterpret_cast<uint8_t*>(&number), sizeof(number)});
  SL_ASSIGN(opened->endpoint_, switchboard->Open(number, secret, [raw = opened.get()](Switchboard::Caller caller) {
    std::lock_guard lock(raw->mutex_);
    raw->callers_.push_back(std::move(caller));
    raw->arrived_.notify_all();
  }));
  return opened;
}

Result<Switchboard::Caller> Extension::Take(FrameType type, const Patience& patience) {
  constexpr auto kSlice = std::chrono::milliseconds(50);
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto found = std::find_if(callers_.begin(), callers_.end(),
                                    [type](const Switchboard::Caller& caller) { return caller.type == type; });
    if (found != callers_.end()) {
      Switchboard::Caller caller = std::move(*found);
      callers_.erase(found);
      return caller;
    }
    if (patience.cancelled()) return Status(SL_ERR_ABORTED, "aborted while waiting for another rank");
    if (NowNs() >= patience.deadline_ns) return Status(SL_ERR_TIMEOUT, "another rank did not come in time");
    arrived_.wait_for(lock, kSlice);
  }
}

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/extension.h"

#include <algorithm>
#include <utility>

namespace sl::kernel {

Result<std::unique_ptr<Extension>> Extension::Open(Switchboard* switchboard, const Secret& secret) {
  std::unique_ptr<Extension> opened(new Extension(switchboard));
  uint64_t number = 0;
  SL_TRY(FillRandom({reinterpret_cast<uint8_t*>(&number), sizeof(number)}));
  SL_ASSIGN(opened->endpoint_, switchboard->Open(number, secret, [raw = opened.get()](Switchboard::Caller caller) {
    raw->OnCaller(std::move(caller));
  }));
  return opened;
}

Extension::~Extension() {
  switchboard_->Close(endpoint_.extension);
  const auto hold = switchboard_->control()->Hold();  // a desk may have asked for another show until now
  std::lock_guard lock(mutex_);
  if (showing_ != 0) switchboard_->control()->Cancel(showing_);
}

void Extension::OnCaller(Switchboard::Caller caller) {
  Desk desk;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = desks_.find(caller.type); found != desks_.end()) desk = found->second;
  }
  if (desk && desk(&caller)) return;
  if (caller.type == FrameType::kBeat) return;  // it wanted to know whether anybody is here
  std::lock_guard lock(mutex_);
  callers_.push_back(std::move(caller));
  arrived_.notify_all();
}

void Extension::SetDesk(FrameType type, Desk desk) {
  {
    std::lock_guard lock(mutex_);
    desks_[type] = std::move(desk);
  }
  ShowAgain();
}

void Extension::ShowAgain() {
  std::lock_guard lock(mutex_);
  is_show_due_ = true;
  if (showing_ == 0) showing_ = switchboard_->control()->At(0, [this] { ShowThoseWhoWait(); });
}

// One after another, so that those behind one that finds no memory are shown when this runs again.
void Extension::ShowThoseWhoWait() {
  for (;;) {
    Switchboard::Caller caller;
    {
      std::lock_guard lock(mutex_);
      if (to_show_ == 0 && std::exchange(is_show_due_, false)) to_show_ = callers_.size();
      if (to_show_ == 0 || callers_.empty()) {
        to_show_ = 0;
        if (is_show_due_) continue;
        showing_ = 0;
        return;
      }
      --to_show_;
      caller = std::move(callers_.front());
      callers_.pop_front();
    }
    OnCaller(std::move(caller));
  }
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

// SPDX-License-Identifier: Apache-2.0
//
// An extension of the process's switchboard that a rank holds: where the others call it, and a queue of those who did.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>

#include "kernel/control/switchboard.h"

namespace sl::kernel {

class Extension {
 public:
  // Under a fresh random number. The switchboard outlives it.
  static Result<std::unique_ptr<Extension>> Open(Switchboard* switchboard, const Secret& secret);
  ~Extension();
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;

  // Where others call it as things are now.
  Endpoint endpoint() const { return switchboard_->Current(endpoint_); }
  Switchboard* switchboard() const { return switchboard_; }

  // The next caller with a frame of this type; others keep waiting. One thread at a time and type.
  // returns: SL_ERR_TIMEOUT | SL_ERR_ABORTED
  Result<Switchboard::Caller> Take(FrameType type, const Patience& patience);

  // From now on callers with a frame of this type, those who wait included, are shown to `desk` on the control thread;
  // one for whom it returns false waits on, unless it is a beat: whoever only asks does not wait. Replaces the type's
  // desk before. What it refers to lives as long as it does.   thread: [any]
  using Desk = std::function<bool(Switchboard::Caller*)>;
  void SetDesk(FrameType type, Desk desk);
  // Those who wait are shown to their desks once more.   thread: [any]
  void ShowAgain();

 private:
  explicit Extension(Switchboard* switchboard) : switchboard_(switchboard) {}
  void OnCaller(Switchboard::Caller caller);
  void ShowThoseWhoWait();

  Switchboard* const switchboard_;
  Endpoint endpoint_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Switchboard::Caller> callers_;  // guarded by mutex_
  std::map<FrameType, Desk> desks_;          // guarded by mutex_
  bool is_show_due_ = false;                 // all of them are to be shown; guarded by mutex_
  size_t to_show_ = 0;                       // from the front, of a show under way; guarded by mutex_
  uint64_t showing_ = 0;                     // the task that shows those who wait; guarded by mutex_
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// The thread that answers other ranks' offers of memory, for all communicators of the process: mapping takes
// milliseconds and may wait for the device, which the control thread must not. Starts with the first communicator that
// needs it; sleeps until it is woken, or looks every now and then while something is offered.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernel/comm/reach.h"
#include "sdk/thread.h"

namespace sl::kernel {

class ReachKeeper {
 public:
  ReachKeeper() = default;
  ~ReachKeeper();  // none may be left; joins the thread
  ReachKeeper(const ReachKeeper&) = delete;
  ReachKeeper& operator=(const ReachKeeper&) = delete;

  // From its making to its end. Remove returns when the thread has left it, for which it does not wait for what the
  // thread does with others.   thread: [any]
  // returns: SL_ERR_SYSTEM no thread can be had
  Status Add(Reach* reach);
  void Remove(Reach* reach);
  // The thread does not come to it any more, and asks it nothing. What it does there now is not waited for: Remove
  // still has to be called.   thread: [any]
  void Forget(Reach* reach);
  // A peer has changed its board. Never waits.   thread: [any]
  void Wake();

 private:
  void Loop();
  bool KeepAll();
  bool AreIdle();
  void ForgetLocked(Reach* reach);
  Status StartThreadLocked();

  std::mutex wake_mutex_;
  std::condition_variable changed_;
  bool is_woken_ = false;  // guarded by wake_mutex_
  bool stopping_ = false;  // guarded by wake_mutex_
  std::mutex mutex_;       // not held while the thread maps and unmaps
  std::condition_variable left_;
  std::vector<Reach*> reaches_;  // guarded by mutex_
  Reach* kept_ = nullptr;        // where the thread is; guarded by mutex_
  Thread thread_;                // guarded by mutex_
  bool is_running_ = false;      // guarded by mutex_
};

}  // namespace sl::kernel

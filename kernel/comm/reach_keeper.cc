// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/reach_keeper.h"

#include <algorithm>
#include <chrono>

namespace sl::kernel {
namespace {

// How long memory that was freed may stay taken.
constexpr auto kLook = std::chrono::milliseconds(10);

}  // namespace

ReachKeeper::~ReachKeeper() {
  {
    std::lock_guard lock(wake_mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (is_running_) thread_.Join();
}

Status ReachKeeper::Add(Reach* reach) {
  std::lock_guard lock(mutex_);
  if (!is_running_) SL_TRY(StartThreadLocked());
  reaches_.push_back(reach);
  return {};
}

void ReachKeeper::Forget(Reach* reach) {
  const std::lock_guard lock(mutex_);
  ForgetLocked(reach);
}

void ReachKeeper::ForgetLocked(Reach* reach) {
  std::erase(reaches_, reach);
  reach->StopKeeping();
}

void ReachKeeper::Remove(Reach* reach) {
  std::unique_lock lock(mutex_);
  ForgetLocked(reach);
  left_.wait(lock, [this, reach] { return kept_ != reach; });
}

void ReachKeeper::Wake() {
  std::lock_guard lock(wake_mutex_);
  is_woken_ = true;
  changed_.notify_one();
}

Status ReachKeeper::StartThreadLocked() {
  Status started = thread_.Start("sl-reach", "to map buffers of peers", [this] { Loop(); });
  is_running_ = started.ok();
  return started;
}

void ReachKeeper::Loop() {
  bool looks = false;
  for (;;) {
    {
      std::unique_lock lock(wake_mutex_);
      const auto is_due = [this] { return is_woken_ || stopping_; };
      if (looks) {
        changed_.wait_for(lock, kLook, is_due);
      } else {
        changed_.wait(lock, is_due);
      }
      if (stopping_) return;
      is_woken_ = false;
    }
    looks = KeepAll();
  }
}

// Looks at each of those that were there when it began and are still there. True: some want another look soon.
bool ReachKeeper::KeepAll() {
  bool looks = false;
  std::unique_lock lock(mutex_);
  const std::vector<Reach*> all = reaches_;
  for (Reach* reach : all) {
    if (std::find(reaches_.begin(), reaches_.end(), reach) == reaches_.end()) continue;
    kept_ = reach;
    lock.unlock();
    looks |= reach->Keep([this] { return AreIdle(); });
    lock.lock();
    kept_ = nullptr;
    left_.notify_all();
  }
  return looks;
}

bool ReachKeeper::AreIdle() {
  std::lock_guard lock(mutex_);
  return std::all_of(reaches_.begin(), reaches_.end(), [](const Reach* reach) { return reach->IsIdle(); });
}

}  // namespace sl::kernel

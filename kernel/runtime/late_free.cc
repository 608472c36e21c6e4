// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/late_free.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "kernel/runtime/launch_roll.h"
#include "sdk/clock.h"

namespace sl::kernel {
namespace {

constexpr auto kShortestNap = std::chrono::milliseconds(1);
constexpr auto kLongestNap = std::chrono::milliseconds(10);
constexpr uint64_t kExitNs = 1'000'000'000;

std::chrono::nanoseconds Until(uint64_t deadline_ns) {
  const uint64_t now_ns = NowNs();
  constexpr uint64_t kMostNs = 3'600'000'000'000;
  return std::chrono::nanoseconds(now_ns < deadline_ns ? std::min(deadline_ns - now_ns, kMostNs) : 0);
}

}  // namespace

struct LateFree::Entry {
  Job job;
  bool is_done = false;     // guarded by mutex_, as the next
  bool is_put_off = false;  // it could not begin at the first look
};

LateFree::~LateFree() {
  if (thread_.joinable()) thread_.join();
}

bool LateFree::Add(Job job, uint64_t deadline_ns) {
  const auto entry = std::make_shared<Entry>(Entry{std::move(job)});
  std::unique_lock lock(mutex_);
  if (is_stopped_) return false;
  entries_.push_back(entry);
  if (!is_running_ && !StartThreadLocked()) {
    entries_.remove(entry);
    lock.unlock();
    if (!entry->job.may_begin()) return false;
    entry->job.run();
    return true;
  }
  changed_.notify_all();
  changed_.wait_for(lock, Until(deadline_ns), [&] { return entry->is_done || entry->is_put_off || is_stopped_; });
  return entry->is_done;
}

void LateFree::Stop(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, Until(deadline_ns), [this] { return !is_freeing_; });
}

// With all signals blocked: they are the program's business.
bool LateFree::StartThreadLocked() {
  if (thread_.joinable()) thread_.join();  // it has let go of the lock for the last time
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { Loop(); });
    is_running_ = true;
  } catch (const std::exception&) {  // no thread, or no memory for it
    is_running_ = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_running_;
}

void LateFree::Loop() {
  pthread_setname_np(pthread_self(), "sl-free");
  auto nap = kShortestNap;
  std::unique_lock lock(mutex_);
  while (!entries_.empty() && !is_stopped_) {
    const std::vector<std::shared_ptr<Entry>> waiting(entries_.begin(), entries_.end());
    lock.unlock();
    const auto first =
        std::find_if(waiting.begin(), waiting.end(), [](const auto& entry) { return entry->job.may_begin(); });
    // Asked last: a launch may come at any time.
    const bool begins = first != waiting.end() && is_quiet_();
    lock.lock();
    if (begins && !is_stopped_) {
      entries_.remove(*first);
      is_freeing_ = true;
      lock.unlock();
      (*first)->job.run();
      lock.lock();
      is_freeing_ = false;
      (*first)->is_done = true;
      nap = kShortestNap;
      changed_.notify_all();
      continue;
    }
    for (const auto& entry : waiting) entry->is_put_off = true;
    changed_.notify_all();
    changed_.wait_for(lock, nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  is_running_ = false;
  changed_.notify_all();
}

LateFree* ProcessLateFree() {
  static pid_t owner = 0;
  static auto* const late_free = [] {
    owner = getpid();
    // Behind the driver's own, hence called before it: nothing is freed on a driver that is gone.
    std::atexit([] {
      if (getpid() == owner) ProcessLateFree()->Stop(NowNs() + kExitNs);
    });
    return new LateFree([] { return ProcessLaunchRoll()->IsQuiet(); });
  }();
  return late_free;
}

}  // namespace sl::kernel

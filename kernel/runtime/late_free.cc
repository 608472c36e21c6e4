// SPDX-License-Identifier: Apache-2.0
#include "kernel/runtime/late_free.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

#include "kernel/events/log.h"
#include "kernel/runtime/launch_roll.h"
#include "sdk/clock.h"

namespace sl::kernel {
namespace {

constexpr auto kShortestNap = std::chrono::milliseconds(1);
constexpr auto kLongestNap = std::chrono::milliseconds(10);
// A job that takes longer waits for a kernel: nobody knows how long.
constexpr uint64_t kStuckNs = 50'000'000;
constexpr uint64_t kExitNs = 1'000'000'000;

std::chrono::nanoseconds Until(uint64_t deadline_ns) {
  const uint64_t now_ns = NowNs();
  constexpr uint64_t kMostNs = 3'600'000'000'000;
  return std::chrono::nanoseconds(now_ns < deadline_ns ? std::min(deadline_ns - now_ns, kMostNs) : 0);
}

}  // namespace

struct LateFree::Entry {
  Job job;
  bool has_begun = false;  // guarded by mutex_, as the next two
  bool is_done = false;
  bool is_put_off = false;  // it could not begin at the first look
};

LateFree::Place LateFree::MakePlace() {
  Place place;
  place.push_back(std::make_shared<Entry>());
  return place;
}

LateFree::~LateFree() {
  if (thread_.joinable()) thread_.Join();
}

bool LateFree::Add(Job job, uint64_t deadline_ns, Place* place) {
  const std::shared_ptr<Entry> entry = place->front();
  entry->job = std::move(job);
  std::unique_lock lock(mutex_);
  if (is_stopped_) return false;
  if (!EnsureThreadLocked()) {
    lock.unlock();
    if (!entry->job.may_begin()) return false;
    entry->job.run();
    return true;
  }
  entries_.splice(entries_.end(), *place);
  changed_.notify_all();
  AwaitLocked(*entry, deadline_ns, &lock);
  return entry->is_done;
}

void LateFree::AwaitLocked(const Entry& entry, uint64_t deadline_ns, std::unique_lock<std::mutex>* lock) {
  const auto is_clear = [&] { return entry.is_done || entry.is_put_off || is_stopped_; };
  while (!is_clear()) {
    const bool waits_for_other = begun_ns_ != 0 && !entry.has_begun;
    const uint64_t end_ns = waits_for_other ? std::min(deadline_ns, begun_ns_ + kStuckNs) : deadline_ns;
    if (NowNs() >= end_ns) return;
    changed_.wait_for(*lock, Until(end_ns));
  }
}

bool LateFree::Put(Job job, Place* place) {
  place->front()->job = std::move(job);
  const std::lock_guard lock(mutex_);
  entries_.splice(entries_.end(), *place);
  changed_.notify_all();
  return is_stopped_ || EnsureThreadLocked();
}

bool LateFree::Retry() {
  const std::lock_guard lock(mutex_);
  return is_stopped_ || entries_.empty() || EnsureThreadLocked();
}

void LateFree::Stop(uint64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, Until(deadline_ns), [this] { return !is_busy_; });
}

bool LateFree::EnsureThreadLocked() {
  if (is_running_) return true;
  if (thread_.joinable()) thread_.Join();  // it has let go of the lock for the last time
  try {
    is_running_ = thread_.Start("sl-free", "to free memory of devices", [this] { Loop(); }).ok();
  } catch (const std::bad_alloc&) {
    is_running_ = false;
  }
  return is_running_;
}

void LateFree::Loop() {
  auto nap = kShortestNap;
  std::unique_lock lock(mutex_);
  while (!entries_.empty() && !is_stopped_) {
    is_busy_ = true;
    const size_t asked = entries_.size();  // others may be added meanwhile
    const auto first = FindFirst(&lock);
    if (first != entries_.end()) {
      Free(first, &lock);
      nap = kShortestNap;
      continue;
    }
    is_busy_ = false;
    std::for_each_n(entries_.begin(), asked, [](const auto& entry) { entry->is_put_off = true; });
    changed_.notify_all();
    changed_.wait_for(lock, nap);
    nap = std::min(2 * nap, kLongestNap);
  }
  is_running_ = false;
  changed_.notify_all();
}

// The first entry that may begin now, or the end. A question that finds no memory is asked again.
LateFree::Place::iterator LateFree::FindFirst(std::unique_lock<std::mutex>* lock) {
  const auto asks = [lock](const auto& question) {
    lock->unlock();
    bool answer = false;
    try {
      answer = question();
    } catch (...) {
      answer = false;
    }
    lock->lock();
    return answer;
  };
  auto first = entries_.begin();
  while (first != entries_.end() && !is_stopped_ && !asks((*first)->job.may_begin)) ++first;
  if (first == entries_.end() || is_stopped_) return entries_.end();
  // Asked last: a launch may come at any time.
  return asks(is_quiet_) && !is_stopped_ ? first : entries_.end();
}

void LateFree::Free(Place::iterator first, std::unique_lock<std::mutex>* lock) {
  const std::shared_ptr<Entry> entry = *first;
  entries_.erase(first);
  entry->has_begun = true;
  begun_ns_ = NowNs();
  changed_.notify_all();  // who waits for another looks at the clock
  lock->unlock();
  try {
    entry->job.run();
  } catch (...) {
    Log(SL_LOG_ERROR, "memory of a communicator that has ended is kept: there was none to free it with");
  }
  lock->lock();
  is_busy_ = false;
  begun_ns_ = 0;
  entry->is_done = true;
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

// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sdk/clock.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
namespace {

// A sleep without a reason to end it; long enough to cost nothing, short enough to survive a lost wake-up.
constexpr uint64_t kIdleNs = 3'600'000'000'000u;
// Whoever stores an abort word rings nothing that is known here.
constexpr uint64_t kAbortLookNs = 10'000'000;

uint64_t LoadWord(const uint64_t* word) {
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}

int32_t LoadAbort(const int32_t* word) {
  if (word == nullptr) return SL_OK;
  return std::atomic_ref<int32_t>(*const_cast<int32_t*>(word)).load(std::memory_order_relaxed);
}

}  // namespace

ProgressThread::ProgressThread(const EngineSettings& settings) : settings_(settings) {
  queue_.reserve(settings_.queue_capacity);
  taken_.reserve(settings_.queue_capacity);
  active_.reserve(settings_.queue_capacity);
}

ProgressThread::~ProgressThread() { Stop(); }

Status ProgressThread::Submit(const ProgressJob& job) {
  const int owner = owner_pid_.load(std::memory_order_relaxed);
  if (owner != 0 && owner != getpid()) return Status(SL_ERR_STATE, "communicators do not work after fork()");
  {
    const std::lock_guard lock(mutex_);
    if (stopping_.load(std::memory_order_relaxed)) return Status(SL_ERR_STATE, "the progress thread has been stopped");
    if (!job.is_standing && pending() >= settings_.queue_capacity) {
      return Status(SL_ERR_LIMIT, fmt::format("{} operations wait for the progress thread already", pending()));
    }
    if (owner_pid_.load(std::memory_order_relaxed) == 0) SL_TRY(StartThread());
    queue_.push_back(job);
    if (!job.is_standing) pending_.fetch_add(1, std::memory_order_relaxed);
    queued_.store(true, std::memory_order_release);
  }
  Ring(&bell_);
  return Status();
}

Status ProgressThread::StartThread() {
  SL_TRY(thread_.Start("sl-progress", "to carry operations", [this] { Loop(); }));
  owner_pid_.store(getpid(), std::memory_order_relaxed);
  return Status();
}

void ProgressThread::Stop() {
  const int owner = owner_pid_.load(std::memory_order_relaxed);
  if (owner != 0 && owner != getpid()) return thread_.Abandon();  // a child of fork(): perhaps with a locked mutex
  bool joins = false;
  {
    const std::lock_guard lock(mutex_);
    joins = owner != 0 && !stopping_.load(std::memory_order_relaxed);
    stopping_.store(true, std::memory_order_release);
  }
  if (!joins) return;
  Ring(&bell_);
  thread_.Join();
}

bool ProgressThread::HasNews() const {
  return queued_.load(std::memory_order_acquire) || stopping_.load(std::memory_order_acquire);
}

void ProgressThread::Loop() {
  uint64_t idle_since = 0;
  uint64_t nap_ns = settings_.nap_ns;
  while (true) {
    TakeJobs();
    if (stopping_.load(std::memory_order_acquire)) break;
    const bool moved = PollJobs();
    EndJobs();
    if (moved) {
      idle_since = 0;
      nap_ns = settings_.nap_ns;
      continue;
    }
    const uint64_t now = NowNs();
    if (idle_since == 0) idle_since = now;
    if (!active_.empty() && now - idle_since < settings_.spin_ns) {
      CpuRelax();
      continue;
    }
    Sleep(nap_ns);
    nap_ns = std::min(nap_ns * 2, settings_.nap_max_ns);
  }
  TakeJobs();
  for (Active& active : active_) {
    if (active.status == SL_ERR_AGAIN) active.status = SL_ERR_ABORTED;
  }
  EndJobs();
}

void ProgressThread::TakeJobs() {
  if (!queued_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard lock(mutex_);
    queued_.store(false, std::memory_order_relaxed);
    taken_.swap(queue_);
  }
  for (const ProgressJob& job : taken_) active_.push_back({job, {}, SL_ERR_AGAIN, false, 0, 0});
  taken_.clear();
}

// True when any job moved or is to end. Ends none, so that doorbells stay where they are.
bool ProgressThread::PollJobs() {
  bool moved = false;
  for (Active& active : active_) {
    const bool this_moved = PollJob(&active);
    if (!this_moved || active.waiting_since_ns != 0) Check(&active, this_moved);
    moved |= this_moved || active.status != SL_ERR_AGAIN;
  }
  return moved;
}

bool ProgressThread::PollJob(Active* active) {
  if (active->status != SL_ERR_AGAIN) return true;
  const ProgressJob& job = active->job;
  if (const int32_t aborted = LoadAbort(job.abort_word); aborted != SL_OK) {
    active->status = aborted;
    return true;
  }
  if (!active->started) {
    if (job.start_word != nullptr && LoadWord(job.start_word) < job.start_value) return false;
    active->started = true;
  }
  active->status = job.work->Poll(&active->wait);
  return active->status != SL_ERR_AGAIN || job.work->moved();
}

// Lets the communicator look at a job that waits for its peers.
void ProgressThread::Check(Active* active, bool moved) {
  const ProgressJob& job = active->job;
  if (job.check == nullptr || job.check_interval_ns == 0 || !active->started) return;
  if (moved) {
    active->waiting_since_ns = 0;
    return;
  }
  const uint64_t now = NowNs();
  if (active->waiting_since_ns == 0) {
    active->waiting_since_ns = now;
    active->next_check_ns = now + job.check_interval_ns;
  }
  if (now < active->next_check_ns) return;
  active->next_check_ns = now + job.check_interval_ns;
  const sl_status_t status = job.check(job.check_ctx, &active->wait, now - active->waiting_since_ns);
  if (status != SL_OK) active->status = status;
}

void ProgressThread::EndJobs() {
  for (size_t i = 0; i < active_.size();) {
    if (active_[i].status == SL_ERR_AGAIN) {
      ++i;
      continue;
    }
    const Active ended = active_[i];
    active_[i] = active_.back();
    active_.pop_back();
    End(ended);
  }
}

void ProgressThread::End(const Active& active) {
  const ProgressJob& job = active.job;
  uint64_t* end_word = job.end_word;
  // After `done` the job's owner may reuse everything but the words.
  if (!job.is_standing) pending_.fetch_sub(1, std::memory_order_relaxed);
  if (job.done != nullptr) job.done(job.done_ctx, active.status);
  if (end_word != nullptr) std::atomic_ref<uint64_t>(*end_word).store(job.end_value, std::memory_order_release);
}

// True when somebody waited for rings no bell: a device's store, a transport without one. Jobs that rest are apart.
bool ProgressThread::Naps() const {
  return std::any_of(active_.begin(), active_.end(), [](const Active& active) {
    return !active.started || (active.wait.doorbell == nullptr && active.job.work->rest_ns() == 0);
  });
}

// True when the next store that somebody waits for is a device's.
bool ProgressThread::AwaitsDevice() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Active& active) { return !active.started || active.job.work->awaits_device(); });
}

uint64_t ProgressThread::SleepLimit(uint64_t nap_ns) const {
  uint64_t limit = Naps() ? nap_ns : kIdleNs;
  if (AwaitsDevice()) limit = std::min(limit, settings_.device_nap_ns);
  for (const Active& active : active_) {
    const ProgressJob& job = active.job;
    if (job.check != nullptr && job.check_interval_ns != 0) limit = std::min(limit, job.check_interval_ns);
    if (job.abort_word != nullptr) limit = std::min(limit, kAbortLookNs);
    const uint64_t rest_ns = active.started ? job.work->rest_ns() : 0;
    if (rest_ns != 0) limit = std::min(limit, rest_ns);
  }
  return limit;
}

// True when every bell that somebody waits for is armed.
bool ProgressThread::HearsAll() const {
  return std::all_of(active_.begin(), active_.end(), [this](const Active& active) {
    return !active.started || active.wait.doorbell == nullptr || bells_.Has(active.wait.doorbell);
  });
}

void ProgressThread::Sleep(uint64_t nap_ns) {
  bells_.Clear();
  bells_.Add(&bell_);
  for (const Active& active : active_) {
    if (active.started && active.wait.doorbell != nullptr) bells_.Add(active.wait.doorbell);
  }
  bells_.Arm();
  if (!HasNews() && !PollJobs()) {
    // This look may have begun a job, or found that one waits for something else than before: a bell that is not armed
    // is not heard, so the thread naps and arms it next time. The same where there were too many bells.
    const uint64_t limit = SleepLimit(nap_ns);
    bells_.Sleep(HearsAll() ? limit : std::min(limit, nap_ns));
    wakeups_.fetch_add(1, std::memory_order_relaxed);
  }
  bells_.Disarm();
}

}  // namespace sl::kernel

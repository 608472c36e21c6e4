// SPDX-License-Identifier: Apache-2.0
//
// Frees what ended communicators have of a device. The driver makes freeing wait for the kernels that run, those of
// other communicators too, which may wait for a rank that never comes; launches wait for the freeing meanwhile. So it
// is done on a thread of its own, and only when nothing runs: who ends a communicator never waits for kernels of
// another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "sdk/thread.h"

namespace sl::kernel {

// The thread exists while there is something to free.
class LateFree {
 public:
  struct Job {
    std::function<bool()> may_begin;  // what it frees is of no use any more; never waits
    std::function<void()> run;
  };
  struct Entry;
  // The place of one job, made while there is memory: ending needs none later.
  using Place = std::list<std::shared_ptr<Entry>>;
  static Place MakePlace();

  // `is_quiet`: nothing runs that freeing would wait for; never waits.
  explicit LateFree(std::function<bool()> is_quiet) : is_quiet_(std::move(is_quiet)) {}
  ~LateFree();  // returns when all is freed, or it was stopped
  LateFree(const LateFree&) = delete;
  LateFree& operator=(const LateFree&) = delete;

  // Waits for its end until the deadline, but no longer once it is clear that it has to be put off, or that the thread
  // is stuck in another job. Where no thread can be had, the caller frees. `place` is empty afterwards.   [any]
  // returns: whether it is done
  bool Add(Job job, uint64_t deadline_ns, Place* place);
  bool Add(Job job, uint64_t deadline_ns) {
    Place place = MakePlace();
    return Add(std::move(job), deadline_ns, &place);
  }
  // The same for who must neither wait nor free: where no thread can be had, the job stays, for the next that is added
  // or for Retry.   [any]
  // returns: whether there is a thread
  bool Put(Job job, Place* place);
  bool Retry();
  // For exit(): begins nothing and asks nothing any more, and waits for what has begun until the deadline.   [any]
  void Stop(uint64_t deadline_ns);

 private:
  bool EnsureThreadLocked();
  void AwaitLocked(const Entry& entry, uint64_t deadline_ns, std::unique_lock<std::mutex>* lock);
  void Loop();
  Place::iterator FindFirst(std::unique_lock<std::mutex>* lock);
  void Free(Place::iterator first, std::unique_lock<std::mutex>* lock);

  const std::function<bool()> is_quiet_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Place entries_;  // oldest first, not begun; what is taken out the thread takes out
  Thread thread_;
  bool is_running_ = false;  // the thread
  bool is_busy_ = false;     // it is inside a job, or asks
  uint64_t begun_ns_ = 0;    // when it got into that job; 0: it is inside none
  bool is_stopped_ = false;
};

// One for each process; never destroyed.
LateFree* ProcessLateFree();

}  // namespace sl::kernel

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
#include <thread>
#include <utility>

namespace sl::kernel {

// The thread exists while there is something to free.
class LateFree {
 public:
  struct Job {
    std::function<bool()> may_begin;  // what it frees is of no use any more; never waits
    std::function<void()> run;
  };

  // `is_quiet`: nothing runs that freeing would wait for; never waits.
  explicit LateFree(std::function<bool()> is_quiet) : is_quiet_(std::move(is_quiet)) {}
  ~LateFree();  // returns when all is freed, or it was stopped
  LateFree(const LateFree&) = delete;
  LateFree& operator=(const LateFree&) = delete;

  // Waits for its end until the deadline, but no longer once it is clear that it has to be put off. Where no thread can
  // be had, the caller frees.   [any]
  // returns: whether it is done
  bool Add(Job job, uint64_t deadline_ns);
  // For exit(): begins nothing any more, and waits for what has begun until the deadline.   [any]
  void Stop(uint64_t deadline_ns);

 private:
  struct Entry;

  bool StartThreadLocked();
  void Loop();

  const std::function<bool()> is_quiet_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::list<std::shared_ptr<Entry>> entries_;  // oldest first, not begun
  std::thread thread_;
  bool is_running_ = false;  // the thread
  bool is_freeing_ = false;  // it is inside a job
  bool is_stopped_ = false;
};

// Of the process; never destroyed.
LateFree* ProcessLateFree();

}  // namespace sl::kernel

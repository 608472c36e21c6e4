// SPDX-License-Identifier: Apache-2.0
//
// Progress threads: they drive work for streams of devices that cannot run host kernels. The stream starts it by
// storing into a word, waits on another word, and never blocks a thread of the device.
//
// Idle, the thread sleeps on a futex and uses no CPU. With jobs that wait it spins for a bounded time, then sleeps on
// the doorbell of what they wait for, or, where there is none (a GPU's store wakes nobody), in short naps that grow;
// but little while a device may be waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernel/engine/work.h"
#include "sdk/bell_set.h"
#include "sdk/status.h"
#include "sdk/thread.h"
#include "sl_device.h"

namespace sl::kernel {

struct EngineSettings {
  uint64_t spin_ns = 20000;  // of fruitless polling before a sleep
  uint64_t nap_ns = 20000;   // first nap where no doorbell helps; doubles
  uint64_t nap_max_ns = 500000;
  uint64_t device_nap_ns = 50000;  // at most, while the next store is a device's
  uint64_t queue_capacity = 1024;  // jobs at once
};

// Work on a stream. Words are host memory mapped to the device; everything lives until `done` was called.
struct ProgressJob {
  Work* work = nullptr;
  const uint64_t* start_word = nullptr;  // starts when *start_word >= start_value; NULL: at once
  uint64_t start_value = 0;
  uint64_t* end_word =
      nullptr;  // receives end_value, release, when the work has ended, also when it failed; may be NULL
  uint64_t end_value = 0;
  const int32_t* abort_word = nullptr;  // as in sl_launch_t; ends the job also before its start
  sl_status_t (*check)(void* check_ctx, const sl_wait_t* wait, uint64_t waited_ns) = nullptr;
  void* check_ctx = nullptr;
  uint64_t check_interval_ns = 0;
  // Stays while its owner lives, and has nothing to do for most of the time: the capacity is for others.
  bool is_standing = false;
  // On the progress thread, before end_word is stored. The work belongs to the callee again. SL_OK or the error that
  // ended it, the abort word's value or the check's.
  void (*done)(void* done_ctx, sl_status_t status) = nullptr;
  void* done_ctx = nullptr;
};

class ProgressThread {
 public:
  explicit ProgressThread(const EngineSettings& settings);
  ~ProgressThread();  // as Stop()
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Queues a job; starts the thread at the first one. Jobs of different communicators progress side by side; jobs of
  // one start in any order their words say.   thread: [any]
  // returns: SL_OK | SL_ERR_LIMIT the queue is full | SL_ERR_STATE stopped, or in a child after fork()
  Status Submit(const ProgressJob& job);

  // Ends the thread; jobs still there end with SL_ERR_ABORTED. Idempotent. In a forked child: forgets the thread.
  void Stop();

  // Whoever stores a start word with a CPU may ring it, so that the job need not be found by a nap.
  sl_doorbell_t* doorbell() { return &bell_; }

  // How often the thread woke from sleeping: an idle one never does.
  uint64_t wakeups() const { return wakeups_.load(std::memory_order_relaxed); }
  // Jobs submitted and not yet done, but for standing ones.
  uint64_t pending() const { return pending_.load(std::memory_order_relaxed); }

 private:
  struct Active {
    ProgressJob job;
    sl_wait_t wait;
    sl_status_t status;  // SL_ERR_AGAIN until the job is to end
    bool started;
    uint64_t waiting_since_ns;  // 0: it moved at its last poll
    uint64_t next_check_ns;
  };

  Status StartThread();
  void Loop();
  void TakeJobs();
  bool PollJobs();
  bool PollJob(Active* active);
  void Check(Active* active, bool moved);
  void EndJobs();
  void End(const Active& active);
  void Sleep(uint64_t nap_ns);
  bool Naps() const;
  bool AwaitsDevice() const;
  uint64_t SleepLimit(uint64_t nap_ns) const;
  bool HasNews() const;
  bool HearsAll() const;

  const EngineSettings settings_;
  sl_doorbell_t bell_{};  // rung by Submit and Stop
  std::atomic<uint64_t> wakeups_{0};
  std::atomic<uint64_t> pending_{0};
  std::atomic<bool> queued_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<int> owner_pid_{0};  // process the thread belongs to; 0: there is no thread yet

  std::mutex mutex_;
  std::vector<ProgressJob> queue_;  // guarded by mutex_
  Thread thread_;                   // guarded by mutex_

  std::vector<ProgressJob> taken_;  // the thread's, as all below
  std::vector<Active> active_;
  BellSet bells_;
};

}  // namespace sl::kernel

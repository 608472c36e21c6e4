// SPDX-License-Identifier: Apache-2.0
//
// The keeper drives links between operations. A program that computes drives nothing, and yet a peer may want to
// connect, ask what became of its chunks, or wait for what a transport has not sent yet. One thread per process,
// started by the first link that is not mapped: what goes through shared memory needs no care. It leaves alone what its
// user drives, looks often while something is under way, and now and then otherwise.
#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "sdk/status.h"
#include "sl_device.h"

namespace sl::kernel {

class LinkTable;

class LinkKeeper {
 public:
  LinkKeeper() = default;
  ~LinkKeeper();  // no table may be left; joins the thread
  LinkKeeper(const LinkKeeper&) = delete;
  LinkKeeper& operator=(const LinkKeeper&) = delete;

  // Tables to look after, from their making to their end. Remove returns when the thread has left the table.
  // thread: [any]
  void Add(LinkTable* table);
  void Remove(LinkTable* table);
  // A table needs care: starts the thread, or wakes it. Without a thread (none can be had, a forked child) links are
  // driven by operations alone.   thread: [any]; a table may call it while it is looked after
  void Want();

  // How often the thread looked at its tables; it never does before Want().
  uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  static void* Main(void* self);
  void Loop();
  bool KeepAll();
  void Start();

  std::mutex mutex_;
  std::vector<LinkTable*> tables_;  // guarded by mutex_
  std::once_flag started_;
  pthread_t thread_{};
  bool has_thread_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> rounds_{0};
  sl_doorbell_t bell_{};
};

}  // namespace sl::kernel

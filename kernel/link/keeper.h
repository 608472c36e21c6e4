// SPDX-License-Identifier: Apache-2.0
//
// The keeper drives links between operations. A program that computes drives nothing, and yet a peer may want to
// connect, ask what became of its chunks, or wait for what a transport has not sent yet. One thread per process,
// started by the first link over a network: what goes through shared memory needs no care. It leaves alone what its
// user drives or waits on, looks often while something is under way, and now and then otherwise. Where a user sleeps on
// a doorbell that no network can ring, it stands in: it waits for the network and rings (wait_objects.h).
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "kernel/link/link_table.h"
#include "sdk/fd.h"
#include "sdk/thread.h"

namespace sl::kernel {

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
  // There is a thread to do so.   thread: [any]
  bool running() const { return running_.load(std::memory_order_acquire); }

  // How often the thread looked at its tables; it never does before Want().
  uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  void Loop();
  LinkTable::Care KeepAll();
  LinkTable::Care KeepAllOrRest();
  Status StartThread();
  void Wake() const;

  std::mutex mutex_;
  std::vector<LinkTable*> tables_;  // guarded by mutex_
  std::once_flag started_;
  Thread thread_;
  std::atomic<bool> running_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> rounds_{0};
  sl::Fd wake_;                 // an eventfd
  std::vector<pollfd> polled_;  // the thread's: wake_, and what it watches
};

}  // namespace sl::kernel

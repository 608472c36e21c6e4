// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/keeper.h"

#include <signal.h>

#include <algorithm>

#include "kernel/events/log.h"
#include "kernel/link/link_table.h"
#include "sdk/bell_set.h"
#include "sdk/doorbell.h"

namespace sl::kernel {
namespace {

// While something is under way nobody else may push it on; else a peer that connects waits this long at most.
constexpr uint64_t kBusyNs = 1'000'000;
constexpr uint64_t kIdleNs = 20'000'000;

}  // namespace

LinkKeeper::~LinkKeeper() {
  stopping_.store(true, std::memory_order_release);
  if (!has_thread_) return;
  Ring(&bell_);
  pthread_join(thread_, nullptr);
}

void LinkKeeper::Add(LinkTable* table) {
  const std::lock_guard lock(mutex_);
  tables_.push_back(table);
}

void LinkKeeper::Remove(LinkTable* table) {
  const std::lock_guard lock(mutex_);
  tables_.erase(std::remove(tables_.begin(), tables_.end(), table), tables_.end());
}

void LinkKeeper::Want() {
  std::call_once(started_, [this] { Start(); });
  Ring(&bell_);
}

// With all signals blocked: they are the program's business.
void LinkKeeper::Start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  has_thread_ = pthread_create(&thread_, nullptr, Main, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!has_thread_) {
    return Logf(SL_LOG_WARN,
                "no thread to look after links between operations; a lost connection is made again, and "
                "lost data sent again, only while an operation waits");
  }
  pthread_setname_np(thread_, "sl-links");
}

void* LinkKeeper::Main(void* self) {
  static_cast<LinkKeeper*>(self)->Loop();
  return nullptr;
}

void LinkKeeper::Loop() {
  BellSet bells;
  while (!stopping_.load(std::memory_order_acquire)) {
    const bool busy = KeepAll();
    rounds_.fetch_add(1, std::memory_order_relaxed);
    bells.Clear();
    bells.Add(&bell_);
    bells.Arm();
    if (!stopping_.load(std::memory_order_acquire)) bells.Sleep(busy ? kBusyNs : kIdleNs);
    bells.Disarm();
  }
}

bool LinkKeeper::KeepAll() {
  const std::lock_guard lock(mutex_);
  bool busy = false;
  for (LinkTable* table : tables_) busy |= table->Keep();
  return busy;
}

}  // namespace sl::kernel

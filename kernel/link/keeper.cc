// SPDX-License-Identifier: Apache-2.0
#include "kernel/link/keeper.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "kernel/events/log.h"
#include "kernel/link/link_table.h"
#include "sdk/system.h"

namespace sl::kernel {
namespace {

// While something is under way nobody else may push it on; else a peer that connects waits this long at most.
constexpr int kBusyMs = 1;
constexpr int kIdleMs = 20;
constexpr uint32_t kFruitlessRounds = 64;

}  // namespace

LinkKeeper::~LinkKeeper() {
  stopping_.store(true, std::memory_order_release);
  if (!running()) return;
  Wake();
  thread_.Join();
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
  std::call_once(started_, [this] {
    const Status started = StartThread();
    running_.store(started.ok(), std::memory_order_release);
    if (running()) return;
    Logf(SL_LOG_WARN,
         "{}; between operations no lost connection is made again and no lost data sent again, only while one waits",
         started.message());
  });
  if (running()) Wake();
}

void LinkKeeper::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);  // full: it is awake
}

Status LinkKeeper::StartThread() {
  wake_ = MakeFd([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!wake_.valid()) return SystemError("no thread to look after links", "eventfd", errno);
  polled_.reserve(1);  // whatever becomes of memory, the thread can be woken
  return thread_.Start("sl-links", "to look after links", [this] { Loop(); });
}

void LinkKeeper::Loop() {
  uint32_t fruitless = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    const LinkTable::Care care = KeepAllOrRest();
    rounds_.fetch_add(1, std::memory_order_relaxed);
    // A descriptor that stays readable though nothing can be fetched must not keep a processor busy.
    const bool rests = fruitless > kFruitlessRounds;
    if (rests) polled_.resize(1);
    const bool woken = poll(polled_.data(), polled_.size(), care.busy || rests ? kBusyMs : kIdleMs) > 0;
    fruitless = woken && !care.moved ? fruitless + 1 : 0;
    uint64_t wakes = 0;
    if (polled_[0].revents != 0) [[maybe_unused]]
      const ssize_t taken = read(wake_.get(), &wakes, sizeof wakes);
  }
}

// Without memory: as if there were nothing to be done, till the next look.
LinkTable::Care LinkKeeper::KeepAllOrRest() {
  try {
    return KeepAll();
  } catch (const std::bad_alloc&) {
    polled_.resize(1);
    return {};
  }
}

// Looks at all tables; polled_ then has what is to be waited for.
LinkTable::Care LinkKeeper::KeepAll() {
  const std::lock_guard lock(mutex_);
  polled_.assign(1, {wake_.get(), POLLIN, 0});
  LinkTable::Care sum;
  for (LinkTable* table : tables_) {
    const LinkTable::Care care = table->Keep(&polled_);
    sum.busy |= care.busy;
    sum.moved |= care.moved;
  }
  return sum;
}

}  // namespace sl::kernel

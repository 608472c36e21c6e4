// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/launch.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "sdk/bell_set.h"

namespace sl::device_host {
namespace {

constexpr uint64_t kNapNs = 50'000;
constexpr uint64_t kLongestNapNs = 1'000'000;
constexpr uint32_t kNapsPerDoubling = 64;
// With more bells than one call can wait for, or without that call: often enough that a ring is not late by much.
constexpr uint64_t kManyBellsNapNs = 200'000;
constexpr uint32_t kMostDescriptors = 64;
// Before a sleep on descriptors where ranks outnumber processors: what is about to come is here before a sleeper wakes,
// and more yields would only keep a processor from those who need it.
constexpr uint32_t kYieldsBeforeDescriptors = 8;
// A chunk may come in a hundred packets, each of which makes a descriptor readable.
constexpr uint32_t kFruitlessPolls = 1000;
constexpr uint64_t kSecond = 1'000'000'000;

// True when the kernel waits for something else than at its last poll.
bool Moved(Task* task) {
  const sl_wait_t& wait = task->wait;
  if (wait.seen == task->last_seen && wait.wanted == task->last_wanted && wait.step == task->last_step &&
      wait.peer == task->last_peer && wait.doorbell == task->last_doorbell) {
    return false;
  }
  task->last_seen = wait.seen;
  task->last_wanted = wait.wanted;
  task->last_step = wait.step;
  task->last_peer = wait.peer;
  task->last_doorbell = wait.doorbell;
  return true;
}

// The words and the callback that may end a wait.
sl_status_t LookAt(Task* task, const int32_t* cancel_word, uint64_t now_ns) {
  if (cancel_word != nullptr) {
    if (int32_t status = __atomic_load_n(cancel_word, __ATOMIC_RELAXED); status != 0) return status;
  }
  if (task->abort_word != nullptr) {
    if (int32_t status = __atomic_load_n(task->abort_word, __ATOMIC_RELAXED); status != 0) return status;
  }
  if (task->waiting_since_ns == 0) task->waiting_since_ns = now_ns;
  if (task->next_check_ns == 0) {
    task->next_check_ns = task->check == nullptr ? UINT64_MAX : now_ns + task->check_interval_ns;
  }
  if (now_ns < task->next_check_ns) return SL_OK;
  // A task that has not begun waits for another one, which is checked itself.
  const uint64_t waited_ns = task->after == nullptr ? now_ns - task->waiting_since_ns : 0;
  const sl_status_t status = task->check(task->check_ctx, &task->wait, waited_ns);
  task->next_check_ns = NowNs() + task->check_interval_ns;
  return status;
}

}  // namespace

Task MakeTask(const sl_launch_t& launch, sl_host_kernel_fn run, const void* args, void* frame) {
  Task task;
  task.run = run;
  task.args = args;
  task.frame = frame;
  task.wait = FreshWait();
  task.abort_word = launch.abort_word;
  task.check = launch.check;
  task.check_ctx = launch.check_ctx;
  task.check_interval_ns = launch.check_interval_ns != 0 ? launch.check_interval_ns : kDefaultCheckNs;
  task.done = launch.done;
  task.done_ctx = launch.done_ctx;
  task.crowded = (launch.flags & SL_LAUNCH_OVERSUBSCRIBED) != 0;
  return task;
}

sl_status_t DriveToEnd(const sl_launch_t& launch, sl_host_kernel_fn run, void* frame, const sl_wait_t& wait,
                       const Tuning& tuning, Counters* counters) {
  Count(&counters->waits);
  Task task = MakeTask(launch, run, launch.args, frame);
  task.wait = wait;
  uint32_t active = 0;
  Group(&task, &active, 1, nullptr, &tuning, counters).Drive(0);
  return task.status;
}

sl_status_t Group::Drive(uint32_t max_polls) {
  // A cancelled stream runs no kernel even once.
  if (cancel_word_ != nullptr && __atomic_load_n(cancel_word_, __ATOMIC_RELAXED) != 0) Look();
  uint32_t polls = 0;
  while (active_count_ != 0) {
    const bool moved = Round(Ended::kFinish);
    if (active_count_ == 0) break;
    const Turn turn = NextTurn(moved);
    if (max_polls != 0 && (turn != Turn::kSpin || (polls += active_count_) >= max_polls)) return SL_ERR_AGAIN;
    switch (turn) {
      case Turn::kSpin:
        CpuRelax();
        if (polls_to_look_ > active_count_) {
          polls_to_look_ -= active_count_;
        } else {
          Look();
        }
        break;
      case Turn::kYield:
        Count(&counters_->yields);
        sched_yield();
        Look();
        break;
      case Turn::kSleep:
        Look();
        if (active_count_ != 0) Sleep();
        break;
    }
  }
  return SL_OK;
}

// Polls every active task once. True when one ended or waits for something else. With Ended::kRecord a task that ended
// stays where it is until FinishRecorded().
bool Group::Round(Ended ended) {
  bool moved = false;
  for (uint32_t slot = 0; slot < active_count_;) {
    Task& task = tasks_[active_[slot]];
    if (task.after != nullptr) {
      if (task.after->done.load(std::memory_order_acquire) == 0) {
        task.wait.doorbell = &task.after->bell;
        task.wait.what = "chain";
        ++slot;
        continue;
      }
      task.after = nullptr;
      task.wait = FreshWait();
      task.waiting_since_ns = 0;
      moved = true;
    }
    const sl_status_t status = task.run(task.args, task.frame, &task.wait);
    if (status != SL_ERR_AGAIN) {
      moved = true;
      if (ended == Ended::kRecord) {
        task.status = status;
        ++slot;
      } else {
        Finish(slot, status);  // the slot now holds another task, or is past the end
      }
      continue;
    }
    if (Moved(&task)) {
      task.waiting_since_ns = 0;
      moved = true;
    }
    ++slot;
  }
  return moved;
}

// Ends the task in `slot`; its successor takes the slot, or the last active one does.
void Group::Finish(uint32_t slot, sl_status_t status) {
  Task& task = tasks_[active_[slot]];
  task.status = status;
  if (task.next >= 0) {
    active_[slot] = static_cast<uint32_t>(task.next);
  } else {
    active_[slot] = active_[--active_count_];
  }
  if (task.done != nullptr) task.done(task.done_ctx, status);
  if (task.ends != nullptr) {
    task.ends->done.store(1, std::memory_order_release);
    Ring(&task.ends->bell);
  }
}

// Ends the tasks that Round(Ended::kRecord) saw end.
void Group::FinishRecorded() {
  for (uint32_t slot = 0; slot < active_count_;) {
    const sl_status_t status = tasks_[active_[slot]].status;
    if (status == SL_ERR_AGAIN) {
      ++slot;
    } else {
      Finish(slot, status);
    }
  }
}

// Reads the clock, abort words and checks of all active tasks, and ends those that must end.
void Group::Look() {
  polls_to_look_ = kPollsPerLook;
  const uint64_t now_ns = NowNs();
  look_again_ns_ = UINT64_MAX;
  for (uint32_t slot = 0; slot < active_count_;) {
    Task& task = tasks_[active_[slot]];
    const sl_status_t status = LookAt(&task, cancel_word_, now_ns);
    if (status != SL_OK) {
      Finish(slot, status);
      continue;
    }
    look_again_ns_ = std::min(look_again_ns_, task.next_check_ns);
    ++slot;
  }
}

Group::Turn Group::NextTurn(bool moved) {
  if (moved) idle_polls_ = idle_yields_ = idle_naps_ = 0;
  idle_polls_ += active_count_;
  const uint32_t limit = tasks_[active_[0]].crowded != 0 ? tuning_->crowded_polls : tuning_->spin_polls;
  if (idle_polls_ <= limit) return Turn::kSpin;
  idle_polls_ = limit;
  const bool sleeps_soon = tasks_[active_[0]].crowded != 0 && HasDescriptors();
  if (idle_yields_ < (sleeps_soon ? std::min(kYieldsBeforeDescriptors, tuning_->yield_count) : tuning_->yield_count)) {
    ++idle_yields_;
    return Turn::kYield;
  }
  return Turn::kSleep;
}

uint64_t Group::SleepNs() const {
  const uint64_t now_ns = NowNs();
  return std::min(tuning_->sleep_slice_ns, look_again_ns_ > now_ns ? look_again_ns_ - now_ns : 1);
}

// All tasks name descriptors, and few enough. Not when one stays readable though nothing comes of it.
bool Group::HasDescriptors() const {
  uint32_t left = kMostDescriptors;
  for (uint32_t slot = 0; slot < active_count_; ++slot) {
    const sl_wait_t& wait = tasks_[active_[slot]].wait;
    if (wait.fds == nullptr || wait.fd_count > left) return false;
    left -= wait.fd_count;
  }
  return idle_naps_ <= kFruitlessPolls;
}

// Nothing is lost between the last look and this sleep: a descriptor with news stays readable.
void Group::SleepOnDescriptors() {
  pollfd polled[kMostDescriptors];
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < active_count_; ++slot) {
    const sl_wait_t& wait = tasks_[active_[slot]].wait;
    for (uint32_t i = 0; i < wait.fd_count; ++i) polled[count++] = {wait.fds[i], POLLIN, 0};
  }
  Count(&counters_->polls);
  const uint64_t ns = SleepNs();
  const timespec limit{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  if (ppoll(polled, count, &limit, nullptr) > 0) ++idle_naps_;
}

void Group::Sleep() {
  if (HasDescriptors()) return SleepOnDescriptors();
  BellSet bells;
  for (uint32_t slot = 0; slot < active_count_; ++slot) {
    sl_doorbell_t* bell = tasks_[active_[slot]].wait.doorbell;
    if (bell == nullptr) return Nap(UINT64_MAX);
    if (!bells.Add(bell)) return Nap(kManyBellsNapNs);
  }
  bells.Arm();
  // The second look. Nothing moved: every task still waits for the bell that was armed for it. A task that ended is
  // finished only when no bell is armed any more: after `done` the memory that holds its bell may be unmapped.
  if (Round(Ended::kRecord)) {
    bells.Disarm();
    FinishRecorded();
    idle_polls_ = idle_yields_ = idle_naps_ = 0;
    return;
  }
  Count(&counters_->sleeps);
  bells.Sleep(SleepNs());
}

// Words without a doorbell are written by somebody who does not know that anyone sleeps, so one must look again and
// again: often at first, then ever less.
void Group::Nap(uint64_t limit_ns) {
  Count(&counters_->naps);
  const uint64_t growing_ns = std::min(kLongestNapNs, kNapNs << std::min(idle_naps_ / kNapsPerDoubling, 8u));
  ++idle_naps_;
  const uint64_t nap_ns = std::min({growing_ns, limit_ns, SleepNs()});
  const timespec nap{0, static_cast<long>(nap_ns)};
  nanosleep(&nap, nullptr);
}

}  // namespace sl::device_host

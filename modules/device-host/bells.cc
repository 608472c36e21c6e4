// SPDX-License-Identifier: Apache-2.0
#include "modules/device-host/bells.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace sl::device_host {
namespace {

timespec ToTimespec(uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
}

}  // namespace

BellSet::~BellSet() {
  if (!armed_) return;
  for (uint32_t i = 0; i < count_; ++i) {
    std::atomic_ref<uint32_t>(bells_[i]->sleepers).fetch_sub(1, std::memory_order_relaxed);
  }
}

bool BellSet::Add(sl_doorbell_t* bell) {
  // Backwards: neighbours in a batch often share their bell.
  for (uint32_t i = count_; i > 0; --i) {
    if (bells_[i - 1] == bell) return true;
  }
  if (count_ == kCapacity) return false;
  bells_[count_++] = bell;
  return true;
}

void BellSet::Arm() {
  armed_ = true;
  for (uint32_t i = 0; i < count_; ++i) {
    std::atomic_ref<uint32_t>(bells_[i]->sleepers).fetch_add(1, std::memory_order_seq_cst);  // F2 of sdk/doorbell.h
    seen_[i] = std::atomic_ref<uint32_t>(bells_[i]->rings).load(std::memory_order_seq_cst);
  }
}

bool BellSet::Sleep(uint64_t max_ns) {
  if (count_ == 1) {
    const timespec limit = ToTimespec(max_ns);
    syscall(SYS_futex, &bells_[0]->rings, FUTEX_WAIT, seen_[0], &limit, nullptr, 0);
    return true;
  }
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
  futex_waitv words[kCapacity];
  for (uint32_t i = 0; i < count_; ++i) {
    words[i] = {seen_[i], reinterpret_cast<uintptr_t>(&bells_[i]->rings), FUTEX_32, 0};
  }
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const timespec limit = ToTimespec(static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + now.tv_nsec + max_ns);
  const long woken = syscall(SYS_futex_waitv, words, count_, 0, &limit, CLOCK_MONOTONIC);
  // Linux before 5.16, or a sandbox that does not know the call.
  return woken >= 0 || (errno != ENOSYS && errno != EPERM);
#else
  return false;
#endif
}

}  // namespace sl::device_host

// SPDX-License-Identifier: Apache-2.0
//
// Doorbells: sleeping until somebody, perhaps another process, has published something, without a lost wake-up and
// without a system call when nobody sleeps.
//
// The argument is Dekker's. A publisher stores its news, then a sequentially consistent fence (F1), then reads
// `sleepers`. A sleeper increments `sleepers` (F2, sequentially consistent), reads `rings`, then looks for news again,
// and only then waits on `rings`. Either F1 precedes F2 and the sleeper's second look sees the news, or F2 precedes F1
// and the publisher sees the sleeper, bumps `rings` and wakes it: futex refuses to sleep on a changed word.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "sl_base.h"

namespace sl {

// Publisher's half after F1, for one of several bells that a single fence serves.
inline void RingAfterFence(sl_doorbell_t* bell) {
  if (std::atomic_ref<uint32_t>(bell->sleepers).load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  std::atomic_ref<uint32_t>(bell->rings).fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Publisher's half, after the news was stored. Any thread, any process that maps the doorbell.
inline void Ring(sl_doorbell_t* bell) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // F1
  RingAfterFence(bell);
}

// Sleeper's half. Usage: BellGuard guard(bell); if (NewsArrived()) return; guard.Sleep(max_ns); loop.
class BellGuard {
 public:
  explicit BellGuard(sl_doorbell_t* bell) : bell_(bell) {
    std::atomic_ref<uint32_t>(bell_->sleepers).fetch_add(1, std::memory_order_seq_cst);  // F2
    seen_ = std::atomic_ref<uint32_t>(bell_->rings).load(std::memory_order_seq_cst);
  }
  ~BellGuard() { std::atomic_ref<uint32_t>(bell_->sleepers).fetch_sub(1, std::memory_order_relaxed); }
  BellGuard(const BellGuard&) = delete;
  BellGuard& operator=(const BellGuard&) = delete;

  // Returns when the bell rang, at the latest after `max_ns`, or on a signal.
  void Sleep(uint64_t max_ns) {
    timespec limit{static_cast<time_t>(max_ns / 1000000000u), static_cast<long>(max_ns % 1000000000u)};
    syscall(SYS_futex, &bell_->rings, FUTEX_WAIT, seen_, &limit, nullptr, 0);
  }

 private:
  sl_doorbell_t* bell_;
  uint32_t seen_ = 0;
};

// One polite turn of a spin loop.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace sl

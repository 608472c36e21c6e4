// SPDX-License-Identifier: Apache-2.0
#include "sdk/bell_set.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace sl {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kDeafSleepNs = 100'000;  // where several words cannot be waited for

#ifdef SYS_futex_waitv
constexpr long kFutexWaitv = SYS_futex_waitv;
#else
constexpr long kFutexWaitv = 449;  // the same on every architecture
#endif

// As the kernel defines it; older headers lack it.
struct WaitWord {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};
constexpr uint32_t kWord32 = 2;  // a 32-bit futex that processes share

timespec Relative(uint64_t ns) { return {static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)}; }

timespec After(uint64_t ns) {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  const uint64_t nanoseconds = static_cast<uint64_t>(at.tv_nsec) + ns % kSecond;
  at.tv_sec += static_cast<time_t>(ns / kSecond + nanoseconds / kSecond);
  at.tv_nsec = static_cast<long>(nanoseconds % kSecond);
  return at;
}

}  // namespace

bool BellSet::Add(sl_doorbell_t* bell) {
  if (std::find(bells_, bells_ + count_, bell) != bells_ + count_) return true;
  if (count_ == kCapacity) return false;
  bells_[count_++] = bell;
  return true;
}

bool BellSet::Has(const sl_doorbell_t* bell) const {
  return std::find(bells_, bells_ + count_, bell) != bells_ + count_;
}

void BellSet::Arm() {
  for (size_t i = 0; i < count_; ++i) {
    std::atomic_ref<uint32_t>(bells_[i]->sleepers).fetch_add(1, std::memory_order_seq_cst);
    seen_[i] = std::atomic_ref<uint32_t>(bells_[i]->rings).load(std::memory_order_seq_cst);
  }
  armed_ = true;
}

void BellSet::Disarm() {
  if (!armed_) return;
  armed_ = false;
  for (size_t i = 0; i < count_; ++i) {
    std::atomic_ref<uint32_t>(bells_[i]->sleepers).fetch_sub(1, std::memory_order_relaxed);
  }
}

void BellSet::Sleep(uint64_t max_ns) {
  if (count_ > 1) {
    WaitWord words[kCapacity];
    for (size_t i = 0; i < count_; ++i)
      words[i] = {seen_[i], reinterpret_cast<uintptr_t>(&bells_[i]->rings), kWord32, 0};
    const timespec until = After(max_ns);
    if (syscall(kFutexWaitv, words, count_, 0, &until, CLOCK_MONOTONIC) >= 0) return;
    if (errno != ENOSYS && errno != EPERM) return;
    max_ns = std::min(max_ns, kDeafSleepNs);
  }
  const timespec limit = Relative(max_ns);
  if (count_ != 0) syscall(SYS_futex, &bells_[0]->rings, FUTEX_WAIT, seen_[0], &limit, nullptr, 0);
}

}  // namespace sl

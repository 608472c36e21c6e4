// SPDX-License-Identifier: Apache-2.0
//
// Whether a function sleeps or waits: how often the thread gave up the processor by itself during some of its calls, as
// the system counts it. One page fault that waits is no sleep, so that most calls must have done it.
#pragma once

#include <sys/resource.h>

#include <atomic>
#include <cstdint>

namespace sl::checker {

class Waits {
 public:
  // Asking the system takes longer than most calls.
  static constexpr uint32_t kEvery = 16;
  static constexpr uint32_t kLookAt = 32;

  constexpr Waits() = default;

  // One call; it is looked at now and then.
  class Sample {
   public:
    explicit Sample(Waits* waits) noexcept : waits_(waits) {
      if (waits->calls_.fetch_add(1, std::memory_order_relaxed) % kEvery == 0) switches_ = Switches();
    }
    // True when most of the calls that were looked at have waited: once for so many calls.
    bool End() const noexcept { return switches_ >= 0 && waits_->Count(Switches() != switches_); }

   private:
    static int64_t Switches() noexcept {
      rusage usage = {};
      getrusage(RUSAGE_THREAD, &usage);
      return usage.ru_nvcsw;
    }

    Waits* const waits_;
    int64_t switches_ = -1;
  };

  uint32_t blocked() const { return reported_.load(std::memory_order_relaxed); }
  static constexpr uint32_t looked_at() { return kLookAt; }

 private:
  bool Count(bool has_blocked) noexcept {
    if (has_blocked) blocked_.fetch_add(1, std::memory_order_relaxed);
    if (looked_at_.fetch_add(1, std::memory_order_relaxed) + 1 < kLookAt) return false;
    looked_at_.store(0, std::memory_order_relaxed);
    const uint32_t blocked = blocked_.exchange(0, std::memory_order_relaxed);
    if (blocked * 4 < kLookAt * 3) return false;
    reported_.store(blocked, std::memory_order_relaxed);
    return true;
  }

  std::atomic<uint32_t> calls_{0};
  std::atomic<uint32_t> looked_at_{0};
  std::atomic<uint32_t> blocked_{0};
  std::atomic<uint32_t> reported_{0};
};

}  // namespace sl::checker

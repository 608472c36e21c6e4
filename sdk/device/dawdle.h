// SPDX-License-Identifier: Apache-2.0
//
// Hostile timing, for tests: threads stop for a moment between the steps of a protocol, each by chance, so that orders
// of events happen which undisturbed timing never brings about. Off, a step costs a comparison with an argument of the
// kernel.
#pragma once

#include "sdk/device/block.h"

#ifndef __CUDA_ARCH__
#include <chrono>
#include <functional>
#include <thread>
#endif

namespace sl::dev {

constexpr uint32_t kMostDawdleNs = 1000000;  // the longest sleep of a GPU's thread

// Stops for less than `most_ns`, or not at all.
SL_APART SL_HD void Stop(uint32_t most_ns) {
#ifdef __CUDA_ARCH__
  uint64_t clock;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock));
  auto bits = static_cast<uint32_t>(clock) ^ threadIdx.x * 0x9E3779B9u;
#else
  static thread_local auto calls = static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
  uint32_t bits = ++calls;
#endif
  // The finalizer of MurmurHash3 (A. Appleby, public domain): every bit depends on every bit.
  bits = (bits ^ bits >> 16) * 0x85EBCA6Bu;
  bits = (bits ^ bits >> 13) * 0xC2B2AE35u;
  bits ^= bits >> 16;
  if (bits % 2 != 0) return;
  const auto ns = static_cast<uint32_t>(static_cast<uint64_t>(bits) * (most_ns >> (bits / 2 % 8)) >> 32);
#ifdef __CUDA_ARCH__
  asm volatile("nanosleep.u32 %0;" ::"r"(ns));
#else
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
#endif
}

// Stops the calling thread for less than `most_ns`, which is at most kMostDawdleNs; half of the calls do not stop, the
// others mostly much shorter. 0: never. Callers have waited together or tell something next: a thread that slept right
// behind its own wait would sleep while others of its warp still poll.
SL_HD void Dawdle(uint32_t most_ns) {
  if (most_ns != 0) Stop(most_ns);
}

}  // namespace sl::dev

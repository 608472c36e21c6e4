// SPDX-License-Identifier: Apache-2.0
//
// Vectors that a thread asks for long before it takes them. They land in slots of its own in shared memory, so that
// many are under way without holding registers, and no thread waits for another. They are read as loads read (in the
// generic proxy, where bulk copies are not): what orders a thread's loads behind a peer's flag orders them.
#pragma once

#include "sdk/device/vector.h"

namespace sl::dev {

// First kDepth times Ask, then Take and Ask in turns; kAbreast vectors each time. On a GPU the slots are the launch's
// dynamic shared memory.
class Ahead {
 public:
  static constexpr uint32_t kAbreast = 2;
  static constexpr uint32_t kDepth = 6;
  // Of a launch whose threads look ahead.
  static constexpr uint32_t SharedBytes(uint32_t threads) { return threads * kDepth * kAbreast * sizeof(Vec16); }

#ifdef __CUDA_ARCH__
  __device__ Ahead() {
    extern __shared__ Vec16 ahead_slots[];
    slots_ = static_cast<uint32_t>(__cvta_generic_to_shared(ahead_slots + threadIdx.x));
  }
#endif

  // Every `apart`-th one of `left` aligned vectors, kAbreast at most. Nobody writes them any more: a peer's, once its
  // flag has been awaited, or this rank's. They pass by the first-level cache. Where Take returns more, it is
  // undefined.
  SL_HD void Ask(const uint8_t* from, uint32_t apart, uint32_t left) {
    SL_UNROLL
    for (uint32_t k = 0; k < kAbreast; ++k) {
      if (k * apart >= left) continue;
#ifdef __CUDA_ARCH__
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Slot(k)), "l"(from + k * apart * sizeof(Vec16)));
#else
      std::memcpy(&slots_[Slot(k)], from + k * apart * sizeof(Vec16), sizeof(Vec16));
#endif
    }
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;");
#endif
    turn_ = turn_ + 1 < kDepth ? turn_ + 1 : 0;
  }

  // What was asked for kDepth calls of Ask ago.
  SL_HD void Take(Vec16 (&out)[kAbreast]) const {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group %0;" ::"n"(kDepth - 1));
#endif
    SL_UNROLL
    for (uint32_t k = 0; k < kAbreast; ++k) {
#ifdef __CUDA_ARCH__
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[k].word[0]), "=r"(out[k].word[1]), "=r"(out[k].word[2]), "=r"(out[k].word[3])
                   : "r"(Slot(k)));
#else
      out[k] = slots_[Slot(k)];
#endif
    }
  }

 private:
#ifdef __CUDA_ARCH__
  __device__ uint32_t Slot(uint32_t k) const {
    return slots_ + (turn_ * kAbreast + k) * blockDim.x * static_cast<uint32_t>(sizeof(Vec16));
  }
  uint32_t slots_;  // shared address of this thread's first one
#else
  uint32_t Slot(uint32_t k) const { return turn_ * kAbreast + k; }
  Vec16 slots_[kDepth * kAbreast] = {};
#endif
  uint32_t turn_ = 0;
};

}  // namespace sl::dev

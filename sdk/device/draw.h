// SPDX-License-Identifier: Apache-2.0
//
// Work that is drawn: pieces are numbered, and every worker takes the next one when it has done its last, so that none
// waits for a slower one, and all are at work near each other. A worker is a warp; on a host, a thread.
//
// The counter lies in memory of this GPU and is 0 before and after: who hears last that nothing is left clears it. All
// workers are counted, those of blocks that begin late, too; each draws until it hears so. Without a counter, the one
// worker does all pieces.
#pragma once

#include "sdk/device/block.h"

namespace sl::dev {

class Draws {
 public:
  // Workers of one block of so many threads.
  SL_HD static uint32_t WorkersOf(uint32_t threads) {
#ifdef __CUDA_ARCH__
    return threads / 32;
#else
    return threads != 0 ? 1 : 0;
#endif
  }
  // The threads among `block`'s that the calling one works with. They need no barrier.
  SL_HD static Block WorkerOf(const Block& block) {
#ifdef __CUDA_ARCH__
    return Block::Part(block.index, block.first + block.thread() / 32 * 32, 32, block.barrier);
#else
    return block;
#endif
  }

  // The one piece that there is, for one worker.
  SL_HD static Draws Whole() { return {nullptr, 1, 0}; }
  SL_HD Draws(uint32_t* counter, uint32_t pieces, uint32_t workers)
      : counter_(counter), pieces_(pieces), workers_(workers) {}

  // Calls with the number of every piece that this worker draws. The next draw is under way meanwhile. True for the
  // worker that hears last that nothing is left.
  template <typename Work>
  SL_HD bool Each(const Work& work) const {
    uint32_t ahead = Draw(0);
    for (;;) {
      const uint32_t piece = Told(ahead);
      if (piece >= pieces_) {
        const bool is_last = counter_ != nullptr && piece == pieces_ + workers_ - 1;
        if (is_last) Clear();
        return is_last;
      }
      ahead = Draw(piece + 1);
      work(piece);
    }
  }

 private:
  // Without a counter, `next`.
  SL_HD uint32_t Draw(uint32_t next) const {
    if (counter_ == nullptr) return next;
#ifdef __CUDA_ARCH__
    uint32_t drawn = 0;
    if (threadIdx.x % 32 == 0) {
      asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(drawn) : "l"(counter_) : "memory");
    }
    return drawn;
#else
    return std::atomic_ref<uint32_t>(*counter_).fetch_add(1, std::memory_order_relaxed);
#endif
  }
  // What the one that drew has got.
  SL_HD static uint32_t Told(uint32_t drawn) {
#ifdef __CUDA_ARCH__
    return __shfl_sync(0xffffffff, drawn, 0);
#else
    return drawn;
#endif
  }
  SL_HD void Clear() const {
#ifdef __CUDA_ARCH__
    if (threadIdx.x % 32 == 0) *counter_ = 0;
#else
    std::atomic_ref<uint32_t>(*counter_).store(0, std::memory_order_relaxed);
#endif
  }

  uint32_t* const counter_;
  const uint32_t pieces_;
  const uint32_t workers_;
};

}  // namespace sl::dev

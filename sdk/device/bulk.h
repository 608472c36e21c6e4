// SPDX-License-Identifier: Apache-2.0
//
// Bulk copies by the copy unit of an SM (sm_90 and later): one thread moves kilobytes between global memory, a peer's
// included, and shared memory, and no data passes registers. Addresses and sizes are multiples of 16 bytes. On a host a
// thread copies.
//
// The copy unit sees memory by a way of its own, the asynchronous proxy. What the issuing thread has seen before Begin,
// a peer's memory whose flag it acquired for example, the unit sees, too; what the unit stored is visible to the
// issuing thread behind Finish, hence to whoever acquires what that thread, or one that it met at a barrier, releases
// then.
#pragma once

#include <cstdint>
#include <cstring>

#include "sdk/device/sync.h"

namespace sl::dev {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kHasBulk = false;
#else
constexpr bool kHasBulk = true;
#endif

// Tells when the bytes of one load stand in shared memory. Lies there itself.
struct alignas(8) BulkArrival {
  uint64_t state;
};

// Shared memory through which one thread's bulk copies pass: so much at a time, and what is to be known of it.
template <typename Item, uint32_t kStages, uint32_t kStageBytes>
struct BulkStages {
  static constexpr uint32_t kCount = kStages;
  static constexpr uint32_t kBytes = kStageBytes;
  alignas(128) uint8_t stage[kStages][kStageBytes];
  BulkArrival arrival[kStages];
  Item item[kStages];
  uint32_t bytes[kStages];
};

#ifdef __CUDA_ARCH__
__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
#endif

// Within BulkStream's store(): the stage goes there.
SL_HD void BulkPut(uint8_t* to, const uint8_t* stage, uint32_t bytes) {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(SharedAddress(stage)),
               "r"(bytes)
               : "memory");
#else
  std::memcpy(to, stage, bytes);
#endif
}

// One thread that loads in bulk and stores what has come, in the order of its loads; several of both are under way.
// store(stage, bytes, item) calls BulkPut for every place that a stage goes to.
template <typename Stages, typename Store>
class BulkStream {
 public:
  SL_HD BulkStream(Stages* stages, const Store& store) : stages_(stages), store_(store) {}

  // First of all.
  SL_HD void Begin() {
#ifdef __CUDA_ARCH__
    for (BulkArrival& arrival : stages_->arrival) {
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(SharedAddress(&arrival)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
  }

  // A stage's bytes at most.
  template <typename Item>
  SL_HD void Load(const uint8_t* from, uint32_t bytes, const Item& item) {
#ifdef __CUDA_ARCH__
    if (loaded_ - stored_ == Stages::kCount - 1) StoreNext();
    // All but the last store have left their stages, that of the stage taken over among them.
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    const uint32_t s = loaded_++ % Stages::kCount;
    stages_->item[s] = item;
    stages_->bytes[s] = bytes;
    const uint32_t arrival = SharedAddress(&stages_->arrival[s]);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrival), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     SharedAddress(stages_->stage[s])),
                 "l"(from), "r"(bytes), "r"(arrival)
                 : "memory");
#else
    store_(from, bytes, item);
#endif
  }

  // Until all that was loaded has been stored, and stands where it belongs.
  SL_HD void Finish() {
#ifdef __CUDA_ARCH__
    while (stored_ != loaded_) StoreNext();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
  }

 private:
#ifdef __CUDA_ARCH__
  __device__ void StoreNext() {
    const uint32_t s = stored_ % Stages::kCount;
    AwaitArrival(stages_->arrival[s], stored_ / Stages::kCount % 2);
    store_(stages_->stage[s], stages_->bytes[s], stages_->item[s]);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    ++stored_;
  }
  // Phases alternate between 0 and 1.
  __device__ static void AwaitArrival(const BulkArrival& arrival, uint32_t phase) {
    uint32_t done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(SharedAddress(&arrival)), "r"(phase)
                   : "memory");
    }
  }

  uint32_t loaded_ = 0;
  uint32_t stored_ = 0;
#endif

  Stages* const stages_;  // NULL on a host
  const Store store_;
};

}  // namespace sl::dev

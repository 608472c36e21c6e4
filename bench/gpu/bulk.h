// SPDX-License-Identifier: Apache-2.0
//
// Bulk copies by the copy unit of an SM (sm_90 and later): one thread moves kilobytes between global memory, a peer's
// included, and shared memory, and no data passes registers. Addresses and sizes are multiples of 16 bytes. For GPUs
// alone: hosts have nothing of the kind.
#pragma once

#ifdef __CUDACC__

#include <cstdint>

namespace sl::bench {

// Tells when the bytes of one load stand in shared memory. Lies in shared memory; one thread waits on it.
struct alignas(8) BulkArrival {
  uint64_t state;

  __device__ uint32_t Address() const { return static_cast<uint32_t>(__cvta_generic_to_shared(&state)); }
  // One thread, before the first load; other threads need a Block::Sync.
  __device__ void Init() {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(Address()) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // Returns when the load of this phase has come; phases alternate between 0 and 1.
  __device__ void Await(uint32_t phase) const {
    uint32_t done = 0;
    while (done == 0) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(Address()), "r"(phase)
                   : "memory");
    }
  }
};

__device__ inline void BulkLoad(void* shared, const uint8_t* from, uint32_t bytes, BulkArrival* arrival) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(arrival->Address()), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(from), "r"(bytes), "r"(arrival->Address())
               : "memory");
}

// Joins the group of stores that the next BulkStore ends.
__device__ inline void BulkPut(uint8_t* to, const void* shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))), "r"(bytes)
               : "memory");
}

// Ends a group of stores with this one.
__device__ inline void BulkStore(uint8_t* to, const void* shared, uint32_t bytes) {
  BulkPut(to, shared, bytes);
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Until all but the last kYounger stores of this thread have read their shared memory.
template <int kYounger>
__device__ inline void BulkAwaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kYounger) : "memory");
}
// Until all stores of this thread are done.
__device__ inline void BulkAwaitStores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace sl::bench

#endif  // __CUDACC__

// SPDX-License-Identifier: Apache-2.0
//
// Memory order for protocols that run on hosts and on GPUs alike: acquire and release on 64-bit words that other ranks
// map. System scope on a GPU, since the other rank may be another GPU or a CPU.
#pragma once

#include <cstdint>

#ifndef __CUDA_ARCH__
#include <atomic>
#endif

#if defined(__CUDACC__)
#define SL_HD __host__ __device__ inline
#else
#define SL_HD inline
#endif

namespace sl::dev {

// Pairs with StoreRelease: what was written before that store is visible after this load.
SL_HD uint64_t LoadAcquire(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(word)).load(std::memory_order_acquire);
#endif
}

SL_HD void StoreRelease(uint64_t* word, uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
#else
  std::atomic_ref<uint64_t>(*word).store(value, std::memory_order_release);
#endif
}

}  // namespace sl::dev

// SPDX-License-Identifier: Apache-2.0
//
// Memory order for protocols that run on hosts and on GPUs alike, on words that other ranks map. System scope on a GPU,
// since the other rank may be another GPU or a CPU.
//
// Waiting: Poll is a relaxed load on a GPU, cheap to repeat (one way between two H200: 0.75 us, where polling with
// acquire takes 1.33 us); what it has seen counts once LoadAcquire has read the same word. A fence would do as well,
// but it waits for the thread's own stores, too. On a host Poll itself acquires, at no cost and as ThreadSanitizer
// wants it.
#pragma once

#include <cstdint>

#ifndef __CUDA_ARCH__
#include <atomic>
#include <thread>
#endif

#if defined(__CUDACC__)
#define SL_HD __host__ __device__ inline
#define SL_UNROLL _Pragma("unroll")
#else
#define SL_HD inline
#define SL_UNROLL
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

SL_HD void StoreRelease(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
#endif
}

// Stores a word that says all by itself, or what held already when this grid began. On an H100 a release takes 1.6 us
// longer, even of a thread that has stored nothing: it is a fence of the whole system.
SL_HD void StoreNote(uint64_t* word, uint64_t note) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(note) : "memory");
#else
  StoreRelease(word, note);
#endif
}
SL_HD void StoreNote(uint32_t* word, uint32_t note) {
#ifdef __CUDA_ARCH__
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(note) : "memory");
#else
  StoreRelease(word, note);
#endif
}

// What this thread has seen of others' stores, and its own, comes before what it stores from here on, for everybody. So
// one thread tells of what many did that tell it (StoreForBlock): a fence takes microseconds while stores to peers are
// under way, and their threads go on meanwhile. On a host StoreNote releases.
SL_HD void FenceSystem() {
#ifdef __CUDA_ARCH__
  asm volatile("fence.acq_rel.sys;" ::: "memory");
#endif
}

// Words of this GPU's memory, between threads of one block.
SL_HD uint32_t LoadOfBlock(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(word)).load(std::memory_order_acquire);
#endif
}
SL_HD void StoreForBlock(uint32_t* word, uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.cta.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  std::atomic_ref<uint32_t>(*word).store(value, std::memory_order_release);
#endif
}

// One look at a word; see above.
SL_HD uint64_t Poll(const uint64_t* word) {
#ifdef __CUDA_ARCH__
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
#else
  return LoadAcquire(word);
#endif
}

SL_HD int32_t Poll(const int32_t* word) {
#ifdef __CUDA_ARCH__
  int32_t value;
  asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref<int32_t>(*const_cast<int32_t*>(word)).load(std::memory_order_acquire);
#endif
}

SL_HD uint32_t Poll(const uint32_t* word) {
#ifdef __CUDA_ARCH__
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref<uint32_t>(*const_cast<uint32_t*>(word)).load(std::memory_order_acquire);
#endif
}

// Between two looks of who waits for others of its own block.
SL_HD void Breathe() {
#ifdef __CUDA_ARCH__
  __nanosleep(100);
#else
  std::this_thread::yield();
#endif
}

// Raises the word to `turn`, which is not 0. True for the first that does so among the blocks of this GPU, or the
// threads of this process; none does once a later turn was claimed.
SL_HD bool Claim(uint32_t* word, uint32_t turn) {
#ifdef __CUDA_ARCH__
  uint32_t old;
  asm volatile("atom.relaxed.gpu.global.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(word), "r"(turn) : "memory");
  return old < turn;
#else
  const std::atomic_ref<uint32_t> claimed(*word);
  uint32_t old = claimed.load(std::memory_order_relaxed);
  while (old < turn && !claimed.compare_exchange_weak(old, turn, std::memory_order_relaxed)) {
  }
  return old < turn;
#endif
}

}  // namespace sl::dev

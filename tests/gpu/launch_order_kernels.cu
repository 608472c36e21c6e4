// SPDX-License-Identifier: Apache-2.0
//
// Kernels of other people, which lie between those of the library in a stream.
#include <cstdint>

// Says that it runs, as a programmatic dependent launch that does not wait for the kernel before it, or that waits
// afterwards.
extern "C" __global__ void run_at_once(uint32_t* word, uint32_t value, uint32_t waits) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#if __CUDA_ARCH__ >= 900
  if (waits != 0) asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Keeps its stream busy for so long.
extern "C" __global__ void hold_up(uint32_t ns) {
  uint64_t begin;
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

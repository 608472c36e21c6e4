// SPDX-License-Identifier: Apache-2.0
// The runtime half of Highway's dynamic dispatch, declared in hwy/targets.h. Debian ships it only as a shared library;
// a module must load with nothing but libc beside it, so each links this hidden copy. It only reads CPU features,
// keeps no state but Highway's chosen target, and may be called from any thread.
#include <cstdint>

#include "hwy/highway.h"
#include "hwy/targets.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace hwy {
namespace {

#if HWY_ARCH_X86
// Not every compiler's __builtin_cpu_supports knows this feature.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

int64_t DetectTargets() {
  __builtin_cpu_init();
  int64_t targets = 0;
  if (__builtin_cpu_supports("ssse3")) targets |= HWY_SSSE3;
  const bool sse4 = __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
                    __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
  if (sse4) targets |= HWY_SSE4;
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2") && HasF16c();
  if (avx2) targets |= HWY_AVX2;
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx3) targets |= HWY_AVX3;
  return targets;
}
#else
// Elsewhere the compile-time baseline (NEON on aarch64) is what every machine has.
int64_t DetectTargets() { return 0; }
#endif

}  // namespace

// The baseline targets are what the compiler may assume anyway, so at least one bit is always set.
int64_t SupportedTargets() { return DetectTargets() | HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR; }

ChosenTarget& GetChosenTarget() {
  static constinit ChosenTarget chosen;
  return chosen;
}

}  // namespace hwy

// SPDX-License-Identifier: Apache-2.0
//
// The mode of the floating-point unit, which belongs to a thread and so to the program that calls: how it rounds,
// whether it flushes subnormal numbers to zero, and what it traps. Results that all ranks must have alike are computed
// in one mode whatever the caller's is.
#pragma once

#include <cstdint>

namespace sl {

// While it lives, the thread rounds to the nearest, keeps subnormal numbers and traps nothing; afterwards the mode is
// as it was. Reads the mode, a few cycles, and writes it only if it differs. Exceptions that are raised while it had to
// be changed leave no mark.
class FloatMode {
 public:
  FloatMode() noexcept : before_(Read()) {
    if (Differs()) [[unlikely]]
      Write(kDefault);
  }
  ~FloatMode() {
    if (Differs()) [[unlikely]]
      Write(before_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  // Arithmetic stays between the two writes because they clobber memory: it starts from loads and ends in stores.
#if defined(__x86_64__)
  using Word = uint32_t;                     // MXCSR
  static constexpr Word kDefault = 0x1F80;   // all exceptions masked
  static constexpr Word kModeBits = 0xFFC0;  // without the marks of exceptions, bits 0 to 5
  static Word Read() noexcept {
    Word word;
    asm volatile("stmxcsr %0" : "=m"(word)::"memory");
    return word;
  }
  static void Write(Word word) noexcept { asm volatile("ldmxcsr %0" ::"m"(word) : "memory"); }
#elif defined(__aarch64__)
  using Word = uint64_t;  // FPCR
  static constexpr Word kDefault = 0;
  static constexpr Word kModeBits = UINT32_MAX;
  static Word Read() noexcept {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
    return word;
  }
  static void Write(Word word) noexcept { asm volatile("msr fpcr, %0" ::"r"(word) : "memory"); }
#else
  using Word = uint32_t;
  static constexpr Word kDefault = 0;
  static constexpr Word kModeBits = 0;
  static Word Read() noexcept { return 0; }
  static void Write(Word) noexcept {}
#endif
  bool Differs() const noexcept { return (before_ & kModeBits) != kDefault; }

  const Word before_;
};

}  // namespace sl

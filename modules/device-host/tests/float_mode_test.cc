// SPDX-License-Identifier: Apache-2.0
//
// Reductions give the same bits whatever mode of the floating-point unit the calling thread is in.
#include "sdk/float_mode.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "modules/device-host/reduce.h"

namespace sl::device_host {
namespace {

struct Mode {
  const char* name;
  uint64_t word;
};

#if defined(__x86_64__)
constexpr uint64_t kDefault = 0x1F80;
constexpr uint64_t kModeBits = 0xFFC0;
constexpr Mode kModes[] = {{"flush to zero", 0x1F80 | 0x8000},
                           {"subnormals are zero", 0x1F80 | 0x40},
                           {"round down", 0x1F80 | 0x2000},
                           {"round up", 0x1F80 | 0x4000},
                           {"truncate", 0x1F80 | 0x6000}};
constexpr uint64_t kTrapsAll = 0;
uint64_t GetMode() {
  uint32_t word;
  asm volatile("stmxcsr %0" : "=m"(word)::"memory");
  return word & kModeBits;
}
void SetMode(uint64_t mode) {
  const auto word = static_cast<uint32_t>(mode);
  asm volatile("ldmxcsr %0" ::"m"(word) : "memory");
}
#elif defined(__aarch64__)
constexpr uint64_t kDefault = 0;
constexpr Mode kModes[] = {
    {"flush to zero", 1 << 24}, {"round up", 1 << 22}, {"round down", 2 << 22}, {"truncate", 3 << 22}};
constexpr uint64_t kTrapsAll = 0x9F00;
uint64_t GetMode() {
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word)::"memory");
  return word;
}
void SetMode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
#endif

constexpr size_t kCount = 67;  // whole vectors of every set, and a rest
constexpr uint32_t kSources = 3;

// Bits of every kind: small and large exponents of every format, subnormal numbers, infinities, NaN.
std::vector<uint8_t> Noise(uint32_t seed) {
  std::vector<uint8_t> bytes(kCount * sizeof(double));
  uint32_t state = seed;
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  for (size_t i = 0; i < kCount / 3; ++i) bytes[8 * i + 7] = bytes[8 * i + 3] = 0;  // subnormal, or small
  for (size_t i = 0; i < kCount / 3; ++i) bytes[8 * i + 6] &= 0x0f, bytes[8 * i + 2] &= 0x0f;
  return bytes;
}

// What a reduction leaves when it is called in `mode`.
std::vector<uint8_t> Reduced(sl_reduce_fn reduce, const sl_reduce_scale_t& scale, uint64_t mode) {
  const std::vector<uint8_t> sources[kSources] = {Noise(1), Noise(2), Noise(3)};
  const void* pointers[kSources] = {sources[0].data(), sources[1].data(), sources[2].data()};
  std::vector<uint8_t> result(kCount * sizeof(double));
  SetMode(mode);
  reduce(result.data(), nullptr, pointers, kSources, kCount, &scale);
  const uint64_t after = GetMode();
  SetMode(kDefault);
  EXPECT_EQ(after, mode) << "the thread's mode was not put back";
  return result;
}

template <typename Check>
void ForAllReductions(const Check& check) {
  for (size_t set = 0; InstructionSetName(set) != nullptr; ++set) {
    for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
      for (sl_reduction_t reduction = 0; reduction < SL_REDUCTION_COUNT; ++reduction) {
        SCOPED_TRACE(std::string(InstructionSetName(set)) + " " + DatatypeName(type) + " " + ReductionName(reduction));
        sl_reduce_scale_t scale{};
        scale.world = kSources;
        scale.flags = reduction == SL_AVG ? SL_REDUCE_FINAL : 0;
        scale.premul_mask = reduction == SL_PREMUL_SUM ? 5 : 0;
        // A third or near it, in every format of floats.
        const double real = 1.0 / 3;
        const auto single = static_cast<float>(real);
        if (type == SL_FLOAT64) std::memcpy(&scale.scalar_bits, &real, sizeof(real));
        if (type == SL_FLOAT32) std::memcpy(&scale.scalar_bits, &single, sizeof(single));
        if (type == SL_FLOAT16) scale.scalar_bits = 0x3555;
        if (type == SL_BFLOAT16) scale.scalar_bits = 0x3eab;
        if (type == SL_FLOAT8E4M3) scale.scalar_bits = 0x2b;
        if (type == SL_FLOAT8E5M2) scale.scalar_bits = 0x35;
        check(FindReduceFor(set, type, reduction), scale);
      }
    }
  }
}

TEST(FloatMode, OfTheCallerChangesNoBitOfAReduction) {
  ForAllReductions([](sl_reduce_fn reduce, const sl_reduce_scale_t& scale) {
    const std::vector<uint8_t> wanted = Reduced(reduce, scale, kDefault);
    for (const Mode& mode : kModes) EXPECT_EQ(Reduced(reduce, scale, mode.word), wanted) << mode.name;
  });
}

TEST(FloatMode, ThatTrapsTrapsNoReduction) {
  ForAllReductions([](sl_reduce_fn reduce, const sl_reduce_scale_t& scale) {
    EXPECT_EQ(Reduced(reduce, scale, kTrapsAll), Reduced(reduce, scale, kDefault));
  });
}

TEST(FloatMode, IsTheDefaultInsideAndPutBackAfterwards) {
  {
    const FloatMode mode;
    EXPECT_EQ(GetMode(), kDefault);
  }
  for (const Mode& other : kModes) {
    SetMode(other.word);
    uint64_t inside = 0;
    {
      const FloatMode mode;
      inside = GetMode();
    }
    const uint64_t after = GetMode();
    SetMode(kDefault);
    EXPECT_EQ(inside, kDefault) << other.name;
    EXPECT_EQ(after, other.word) << other.name;
  }
}

}  // namespace
}  // namespace sl::device_host

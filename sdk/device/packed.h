// SPDX-License-Identifier: Apache-2.0
//
// Words of narrow elements under reduction, several lanes an instruction. A class of these starts with a word of the
// first contribution, adds the others' in rank order, and finishes (dividing by `world`, where it is not 0); the
// results are those of lanes reduced one by one (accumulator.h), bit for bit, payloads of NaNs aside.
#pragma once

#include "sdk/device/element.h"

namespace sl::dev {

// Four integers of a byte: the sums of the lanes' lower seven bits cannot carry into the next lane, and the highest
// bit is added without a carry (H. S. Warren, Hacker's Delight, 2nd edition, section 2-18).
template <typename F>
class ByteSums {
 public:
  SL_HD void Start(uint32_t word) { sum_ = word; }
  SL_HD void Add(uint32_t word) { sum_ = ((sum_ & kLower) + (word & kLower)) ^ ((sum_ ^ word) & ~kLower); }
  SL_HD uint32_t Finish(uint32_t world) const {
    if (world == 0) return sum_;
    uint32_t word = 0;
    SL_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const auto lane = static_cast<typename F::Lane>(sum_ >> (8 * i));
      const uint32_t share = F::Share(F::Decode(lane), world);
      word |= static_cast<uint32_t>(static_cast<uint8_t>(F::Encode(share))) << (8 * i);
    }
    return word;
  }

 private:
  static constexpr uint32_t kLower = 0x7F7F7F7F;
  uint32_t sum_ = 0;
};

// The larger or the smaller of two 16-bit integers at a time.
template <typename Half, sl_reduction_t kReduction>
SL_HD uint32_t ExtremeIntegers(uint32_t a, uint32_t b) {
  constexpr bool kIsMax = kReduction == SL_MAX;
#ifdef __CUDA_ARCH__
  if constexpr (std::is_signed_v<Half>) return kIsMax ? __vmaxs2(a, b) : __vmins2(a, b);
  return kIsMax ? __vmaxu2(a, b) : __vminu2(a, b);
#else
  uint32_t extrema = 0;
  for (uint32_t shift = 0; shift < 32; shift += 16) {
    const auto x = static_cast<Half>(a >> shift);
    const auto y = static_cast<Half>(b >> shift);
    extrema |= static_cast<uint32_t>(static_cast<uint16_t>((x > y) == kIsMax ? x : y)) << shift;
  }
  return extrema;
#endif
}

// The same of floats, F's: a NaN wins and becomes 0x7FFF; +0 is larger than -0.
template <typename F, sl_reduction_t kReduction>
SL_HD uint32_t ExtremeFloats(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  constexpr bool kIsMax = kReduction == SL_MAX;
  uint32_t extrema;
  if constexpr (std::is_base_of_v<BFloat16, F>) {
    if constexpr (kIsMax) {
      asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(extrema) : "r"(a), "r"(b));
    } else {
      asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(extrema) : "r"(a), "r"(b));
    }
  } else {
    static_assert(std::is_base_of_v<Float16, F>);
    if constexpr (kIsMax) {
      asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(extrema) : "r"(a), "r"(b));
    } else {
      asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(extrema) : "r"(a), "r"(b));
    }
  }
  return extrema;
#else
  uint32_t extrema = 0;
  for (uint32_t shift = 0; shift < 32; shift += 16) {
    const auto x = F::template ToKey<kReduction>(static_cast<uint16_t>(a >> shift));
    const auto y = F::template ToKey<kReduction>(static_cast<uint16_t>(b >> shift));
    const auto extreme = (x > y) == (kReduction == SL_MAX) ? x : y;
    extrema |= static_cast<uint32_t>(F::template FromKey<kReduction>(extreme)) << shift;
  }
  return extrema;
#endif
}

// Four integers of a byte, as the upper bytes of four halves, which have the same order.
template <typename F, sl_reduction_t kReduction>
class ByteExtrema {
 public:
  SL_HD void Start(uint32_t word) {
    odd_ = word & kUpper;
    even_ = (word << 8) & kUpper;
  }
  SL_HD void Add(uint32_t word) {
    odd_ = ExtremeIntegers<Half, kReduction>(odd_, word & kUpper);
    even_ = ExtremeIntegers<Half, kReduction>(even_, (word << 8) & kUpper);
  }
  SL_HD uint32_t Finish(uint32_t /*world*/) const { return odd_ | even_ >> 8; }

 private:
  using Half = std::conditional_t<std::is_signed_v<typename F::Lane>, int16_t, uint16_t>;
  static constexpr uint32_t kUpper = 0xFF00FF00;
  uint32_t odd_ = 0;
  uint32_t even_ = 0;
};

// Two floats of two bytes.
template <typename F, sl_reduction_t kReduction>
class HalfExtrema {
 public:
  SL_HD void Start(uint32_t word) { word_ = word; }
  SL_HD void Add(uint32_t word) { word_ = ExtremeFloats<F, kReduction>(word_, word); }
  SL_HD uint32_t Finish(uint32_t /*world*/) const { return word_; }

 private:
  uint32_t word_ = 0;
};

// Four floats of a byte, compared as float16.
template <typename F, sl_reduction_t kReduction>
class ByteFloatExtrema {
 public:
  SL_HD void Start(uint32_t word) { F::ToHalves(word, pairs_); }
  SL_HD void Add(uint32_t word) {
    uint32_t other[2];
    F::ToHalves(word, other);
    SL_UNROLL
    for (uint32_t i = 0; i < 2; ++i) pairs_[i] = ExtremeFloats<FormatOf<SL_FLOAT16>, kReduction>(pairs_[i], other[i]);
  }
  SL_HD uint32_t Finish(uint32_t /*world*/) const { return F::FromHalves(pairs_); }

 private:
  uint32_t pairs_[2] = {};
};

// Four floats of a byte, accumulated in float32.
template <typename F, sl_reduction_t kReduction>
class ByteFloatSums {
 public:
  SL_HD void Start(uint32_t word) { Decode(word, values_); }
  SL_HD void Add(uint32_t word) {
    float others[4];
    Decode(word, others);
    SL_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      values_[i] = kReduction == SL_PROD ? F::Mul(values_[i], others[i]) : F::Add(values_[i], others[i]);
    }
  }
  SL_HD uint32_t Finish(uint32_t world) const {
    if (kReduction == SL_PROD || world == 0) return F::EncodeWord(values_);
    float shares[4];
    SL_UNROLL
    for (uint32_t i = 0; i < 4; ++i) shares[i] = F::Share(values_[i], world);
    return F::EncodeWord(shares);
  }

 private:
  SL_HD static void Decode(uint32_t word, float (&values)[4]) {
    uint32_t pairs[2];
    F::ToHalves(word, pairs);
    HalvesToFloats(pairs, values);
  }
  float values_[4] = {};
};

template <typename F, sl_reduction_t kReduction>
SL_HD constexpr auto ChoosePacked() {
  constexpr bool kIsExtremum = kReduction == SL_MAX || kReduction == SL_MIN;
  constexpr bool kIsInteger = std::is_integral_v<typename F::Acc>;
  constexpr size_t kLaneBytes = sizeof(typename F::Lane);
  if constexpr (kLaneBytes == 1 && kIsInteger && kIsExtremum) {
    return std::type_identity<ByteExtrema<F, kReduction>>{};
  } else if constexpr (kLaneBytes == 1 && kIsInteger && kReduction == SL_SUM) {
    return std::type_identity<ByteSums<F>>{};
  } else if constexpr (kLaneBytes == 1 && !kIsInteger && kIsExtremum) {
    return std::type_identity<ByteFloatExtrema<F, kReduction>>{};
  } else if constexpr (kLaneBytes == 1 && !kIsInteger) {
    return std::type_identity<ByteFloatSums<F, kReduction>>{};
  } else if constexpr (kLaneBytes == 2 && kIsExtremum) {
    return std::type_identity<HalfExtrema<F, kReduction>>{};
  } else {
    return std::type_identity<void>{};
  }
}

// The class that reduces words of a format; void: its lanes are reduced one by one.
template <typename F, sl_reduction_t kReduction>
using PackedOf = typename decltype(ChoosePacked<F, kReduction>())::type;

}  // namespace sl::dev

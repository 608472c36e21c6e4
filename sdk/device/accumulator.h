// SPDX-License-Identifier: Apache-2.0
//
// Vectors of elements under reduction, in registers.
#pragma once

#include "sdk/device/packed.h"

namespace sl::dev {

// One element under reduction. kReduction is SL_SUM (which serves averages and pre-multiplied sums too), SL_PROD,
// SL_MAX or SL_MIN.
template <typename F, sl_reduction_t kReduction>
struct Arithmetic {
  static constexpr bool kIsExtremum = kReduction == SL_MAX || kReduction == SL_MIN;
  using Lane = typename F::Lane;
  using Value = std::conditional_t<kIsExtremum, typename F::Key, typename F::Acc>;

  SL_HD static Value Take(Lane lane) {
    if constexpr (kIsExtremum) {
      return F::template ToKey<kReduction>(lane);
    } else {
      return F::Decode(lane);
    }
  }
  SL_HD static Value Combine(Value a, Value b) {
    if constexpr (kReduction == SL_MAX) {
      return a > b ? a : b;
    } else if constexpr (kReduction == SL_MIN) {
      return a < b ? a : b;
    } else if constexpr (kReduction == SL_PROD) {
      return F::Mul(a, b);
    } else {
      return F::Add(a, b);
    }
  }
  // `world`: by how many ranks an average divides; 0: no average.
  SL_HD static Lane Finish(Value value, uint32_t world) {
    if constexpr (kIsExtremum) {
      return F::template FromKey<kReduction>(value);
    } else if constexpr (kReduction == SL_SUM) {
      return F::Encode(world != 0 ? F::Share(value, world) : value);
    } else {
      return F::Encode(value);
    }
  }
};

// A vector of them, one by one.
template <typename F, sl_reduction_t kReduction, uint32_t kBytes>
class LaneAccumulator {
 public:
  SL_HD void Start(const Vector<kBytes>& v) {
    SL_UNROLL
    for (uint32_t i = 0; i < kLanes; ++i) value_[i] = A::Take(GetLane<Lane>(v, i));
  }
  SL_HD void Add(const Vector<kBytes>& v) {
    SL_UNROLL
    for (uint32_t i = 0; i < kLanes; ++i) value_[i] = A::Combine(value_[i], A::Take(GetLane<Lane>(v, i)));
  }
  SL_HD Vector<kBytes> Finish(uint32_t world) const {
    Vector<kBytes> v{};
    SL_UNROLL
    for (uint32_t i = 0; i < kLanes; ++i) PutLane<Lane>(&v, i, A::Finish(value_[i], world));
    return v;
  }

 private:
  using A = Arithmetic<F, kReduction>;
  using Lane = typename F::Lane;
  static constexpr uint32_t kLanes = kLanesOf<F, kBytes>;

#ifdef __CUDA_ARCH__
  typename A::Value value_[kLanes];
#else
  typename A::Value value_[kLanes] = {};  // hosts' compilers do not see that Start comes first
#endif
};

// The same by words of several lanes.
template <typename Packed, uint32_t kBytes>
class WordAccumulator {
 public:
  SL_HD void Start(const Vector<kBytes>& v) {
    SL_UNROLL
    for (uint32_t i = 0; i < kBytes / 4; ++i) word_[i].Start(v.word[i]);
  }
  SL_HD void Add(const Vector<kBytes>& v) {
    SL_UNROLL
    for (uint32_t i = 0; i < kBytes / 4; ++i) word_[i].Add(v.word[i]);
  }
  SL_HD Vector<kBytes> Finish(uint32_t world) const {
    Vector<kBytes> v;
    SL_UNROLL
    for (uint32_t i = 0; i < kBytes / 4; ++i) v.word[i] = word_[i].Finish(world);
    return v;
  }

 private:
  Packed word_[kBytes / 4];
};

// A vector under reduction: Start with the first contribution, Add the others in rank order, Finish.
template <typename F, sl_reduction_t kReduction, uint32_t kBytes>
using Accumulator = std::conditional_t<std::is_void_v<PackedOf<F, kReduction>>, LaneAccumulator<F, kReduction, kBytes>,
                                       WordAccumulator<PackedOf<F, kReduction>, kBytes>>;

// Every element times a rank's scalar, rounded to the format: what SL_PREMUL_SUM publishes.
template <typename F, uint32_t kBytes>
SL_HD Vector<kBytes> Scaled(const Vector<kBytes>& v, uint64_t scalar_bits) {
  using Lane = typename F::Lane;
  Vector<8> scalar{};
  scalar.word[0] = static_cast<uint32_t>(scalar_bits);
  scalar.word[1] = static_cast<uint32_t>(scalar_bits >> 32);
  const auto factor = F::Decode(GetLane<Lane>(scalar, 0));
  Vector<kBytes> scaled{};
  SL_UNROLL
  for (uint32_t i = 0; i < kLanesOf<F, kBytes>; ++i) {
    PutLane<Lane>(&scaled, i, F::Encode(F::Mul(F::Decode(GetLane<Lane>(v, i)), factor)));
  }
  return scaled;
}

}  // namespace sl::dev

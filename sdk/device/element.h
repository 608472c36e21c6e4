// SPDX-License-Identifier: Apache-2.0
//
// Elements of every data type as registers see them. The results are device-host's, bit for bit, where contributions
// are combined in the same order (payloads of NaNs aside): integers wrap, narrow floats accumulate in float32 and round
// once, a NaN wins in minimum and maximum, averages of integers truncate toward zero.
//
// A format F has Lane (in memory), Acc (accumulator), Decode, Encode, Add, Mul, Share (the average of a complete sum),
// and Key, which orders elements as integers: ToKey and FromKey.
#pragma once

#include <limits>
#include <type_traits>

#include "sdk/device/float8_formats.h"
#include "sdk/device/vector.h"
#include "sl_base.h"

namespace sl::dev {

// The compiler must not fuse a product into a sum: hosts do not.
SL_HD float MulRounded(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
SL_HD double MulRounded(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

template <typename T>
struct IntegerFormat {
  using Lane = T;
  using Acc = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  using Key = T;
  SL_HD static Acc Decode(Lane lane) { return static_cast<Acc>(lane); }
  SL_HD static Lane Encode(Acc acc) { return static_cast<Lane>(acc); }
  SL_HD static Acc Add(Acc a, Acc b) { return a + b; }
  SL_HD static Acc Mul(Acc a, Acc b) { return a * b; }
  SL_HD static Acc Share(Acc sum, uint32_t world) {
    using Narrow = std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>;
    using Wide = std::conditional_t<sizeof(T) == 8, T, Narrow>;
    return static_cast<Acc>(static_cast<Wide>(static_cast<T>(sum)) / static_cast<Wide>(world));
  }
  template <sl_reduction_t>
  SL_HD static Key ToKey(Lane lane) {
    return lane;
  }
  template <sl_reduction_t>
  SL_HD static Lane FromKey(Key key) {
    return key;
  }
};

// Floats ordered by a signed integer key: a negative number's bits below the sign are inverted, a NaN gets the key that
// wins. kInfinity is the largest magnitude, as bits, that is not a NaN.
template <typename KeyT, KeyT kInfinity, typename LaneT>
struct FloatOrder {
  using Key = KeyT;
  static constexpr Key kMagnitude = std::numeric_limits<Key>::max();
  static constexpr int kSignShift = 8 * sizeof(Key) - 1;

  template <sl_reduction_t kReduction>
  static constexpr Key kNanKey = kReduction == SL_MAX ? kMagnitude : std::numeric_limits<Key>::min();

  template <sl_reduction_t kReduction>
  SL_HD static Key ToKey(LaneT lane) {
    const Key bits = BitCast<Key>(lane);
    if (static_cast<Key>(bits & kMagnitude) > kInfinity) return kNanKey<kReduction>;
    return static_cast<Key>(bits ^ ((bits >> kSignShift) & kMagnitude));
  }
  // The smallest key stands for no float but the minimum's NaN, whose sign is dropped.
  template <sl_reduction_t kReduction>
  SL_HD static LaneT FromKey(Key key) {
    if (kReduction == SL_MIN && key == kNanKey<SL_MIN>) return BitCast<LaneT>(kMagnitude);
    return BitCast<LaneT>(static_cast<Key>(key ^ ((key >> kSignShift) & kMagnitude)));
  }
};

template <typename AccT>
struct FloatSums {
  using Acc = AccT;
  SL_HD static Acc Add(Acc a, Acc b) { return a + b; }
  SL_HD static Acc Mul(Acc a, Acc b) { return MulRounded(a, b); }
  SL_HD static Acc Share(Acc sum, uint32_t world) {
    return world > 1 ? MulRounded(sum, Acc{1} / static_cast<Acc>(world)) : sum;
  }
};

template <typename T, typename KeyT, KeyT kInfinity>
struct WideFloat : FloatSums<T>, FloatOrder<KeyT, kInfinity, T> {
  using Lane = T;
  SL_HD static T Decode(Lane lane) { return lane; }
  SL_HD static Lane Encode(T acc) { return acc; }
};

template <typename Small, typename KeyT>
struct NarrowFloat : Small,
                     FloatSums<float>,
                     FloatOrder<KeyT, static_cast<KeyT>(Small::kInfinity), typename Small::Lane> {};

template <sl_datatype_t>
struct FormatOf;
template <>
struct FormatOf<SL_INT8> : IntegerFormat<int8_t> {};
template <>
struct FormatOf<SL_UINT8> : IntegerFormat<uint8_t> {};
template <>
struct FormatOf<SL_INT32> : IntegerFormat<int32_t> {};
template <>
struct FormatOf<SL_UINT32> : IntegerFormat<uint32_t> {};
template <>
struct FormatOf<SL_INT64> : IntegerFormat<int64_t> {};
template <>
struct FormatOf<SL_UINT64> : IntegerFormat<uint64_t> {};
template <>
struct FormatOf<SL_FLOAT16> : NarrowFloat<Float16, int16_t> {};
template <>
struct FormatOf<SL_FLOAT32> : WideFloat<float, int32_t, 0x7F800000> {};
template <>
struct FormatOf<SL_FLOAT64> : WideFloat<double, int64_t, 0x7FF0000000000000> {};
template <>
struct FormatOf<SL_BFLOAT16> : NarrowFloat<BFloat16, int16_t> {};
template <>
struct FormatOf<SL_FLOAT8E4M3> : NarrowFloat<Float8E4M3, int8_t> {};
template <>
struct FormatOf<SL_FLOAT8E5M2> : NarrowFloat<Float8E5M2, int8_t> {};

template <typename F, uint32_t kBytes>
inline constexpr uint32_t kLanesOf = kBytes / sizeof(typename F::Lane);

// One element in memory, at an address aligned to it; volatile, since it may be a peer's.
template <typename Lane>
SL_HD Lane LoadElement(const uint8_t* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const volatile Lane*>(from);
#else
  Lane lane;
  std::memcpy(&lane, from, sizeof(lane));
  return lane;
#endif
}
template <typename Lane>
SL_HD void StoreElement(uint8_t* to, Lane lane) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Lane*>(to) = lane;
#else
  std::memcpy(to, &lane, sizeof(lane));
#endif
}

// Lane i of a vector; i is a constant after unrolling.
template <typename Lane, uint32_t kBytes>
SL_HD Lane GetLane(const Vector<kBytes>& v, uint32_t i) {
  if constexpr (sizeof(Lane) == 8) {
    return BitCast<Lane>(v.word[2 * i] | static_cast<uint64_t>(v.word[2 * i + 1]) << 32);
  } else if constexpr (sizeof(Lane) == 4) {
    return BitCast<Lane>(v.word[i]);
  } else {
    constexpr uint32_t kPerWord = 4 / sizeof(Lane);
    using Bits = std::conditional_t<sizeof(Lane) == 2, uint16_t, uint8_t>;
    return BitCast<Lane>(static_cast<Bits>(v.word[i / kPerWord] >> (i % kPerWord * 8 * sizeof(Lane))));
  }
}

// The same written; every lane once, in order, into a vector of zeros.
template <typename Lane, uint32_t kBytes>
SL_HD void PutLane(Vector<kBytes>* v, uint32_t i, Lane lane) {
  if constexpr (sizeof(Lane) == 8) {
    const auto bits = BitCast<uint64_t>(lane);
    v->word[2 * i] = static_cast<uint32_t>(bits);
    v->word[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
  } else if constexpr (sizeof(Lane) == 4) {
    v->word[i] = BitCast<uint32_t>(lane);
  } else {
    constexpr uint32_t kPerWord = 4 / sizeof(Lane);
    using Bits = std::conditional_t<sizeof(Lane) == 2, uint16_t, uint8_t>;
    v->word[i / kPerWord] |= static_cast<uint32_t>(BitCast<Bits>(lane)) << (i % kPerWord * 8 * sizeof(Lane));
  }
}

}  // namespace sl::dev

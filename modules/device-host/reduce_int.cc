// SPDX-License-Identifier: Apache-2.0
// Integer reductions, and MIN and MAX of floats, which compare integers.
#include "modules/device-host/reduce_tables.h"

#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "modules/device-host/reduce_int.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "modules/device-host/reduce_inl.h"
#include "sdk/device/float8_formats.h"

HWY_BEFORE_NAMESPACE();
namespace sl::device_host::HWY_NAMESPACE {
namespace {

using dev::BFloat16;
using dev::Float16;
using dev::Float8E4M3;
using dev::Float8E5M2;

// What integer operations share: elements are their own accumulators.
template <class T>
struct Plain {
  using Lane = T;
  using D = hn::ScalableTag<T>;
  using DM = D;
  using V = hn::Vec<D>;
  static constexpr D d{};
  static constexpr DM dm{};
  static constexpr bool kCopiesOne = true;
  static constexpr bool kPairs = true;
  HWY_INLINE V Decode(V v, uint32_t /*source*/) const { return v; }
  HWY_INLINE V Encode(V v) const { return v; }
};

// Signed and unsigned sums and products wrap alike, so both use unsigned lanes.
template <class T>
struct SumOp : Plain<T> {
  using typename Plain<T>::V;
  HWY_INLINE V Combine(V a, V b) const { return hn::Add(a, b); }
};

// Highway multiplies 8-bit lanes on no target but the plain one: multiply the even and the odd bytes as 16-bit lanes.
template <class D, class V>
HWY_INLINE V Multiply(D d, V a, V b) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    const hn::Repartition<uint16_t, D> wide;
    const auto a16 = hn::BitCast(wide, a);
    const auto b16 = hn::BitCast(wide, b);
    const auto even = hn::And(hn::Mul(a16, b16), hn::Set(wide, 0xFF));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16)));
    return hn::BitCast(d, hn::Or(even, odd));
  } else  // NOLINT: the branch of the other widths
#endif
  {
    return hn::Mul(a, b);
  }
}

template <class T>
struct ProdOp : Plain<T> {
  using typename Plain<T>::V;
  HWY_INLINE V Combine(V a, V b) const { return Multiply(this->d, a, b); }
};

template <class T>
struct PremulOp : Plain<T> {
  using typename Plain<T>::V;
  static constexpr bool kCopiesOne = false;
  static constexpr bool kPairs = false;
  T scalar;
  uint64_t mask;
  HWY_INLINE V Decode(V v, uint32_t source) const {
    return InMask(mask, source) ? Multiply(this->d, v, hn::Set(this->d, scalar)) : v;
  }
  HWY_INLINE V Combine(V a, V b) const { return hn::Add(a, b); }
};

// T is signed or unsigned here: the division tells them apart. No instruction set divides integers by lanes, so up to
// 32 bits multiply by the reciprocal. That is exact: (|x| + 1/2) / world is at least 1/(2 world) away from an integer,
// and both roundings together move it by less, since |x| has far fewer bits than a mantissa.
template <class T>
struct AverageOp : Plain<T> {
  using typename Plain<T>::V;
  using Real = std::conditional_t<sizeof(T) == 1, float, double>;
  static constexpr bool kCopiesOne = false;
  static constexpr bool kPairs = false;
  uint32_t world;
  Real share;  // 1 / world

  HWY_INLINE V Combine(V a, V b) const {
    const hn::RebindToUnsigned<typename Plain<T>::D> du;
    return hn::BitCast(this->d, hn::Add(hn::BitCast(du, a), hn::BitCast(du, b)));
  }
  HWY_INLINE T Divide(T x) const {
    if constexpr (sizeof(T) == 8) {
      return static_cast<T>(x / static_cast<T>(world));
    } else {
      const Real real = static_cast<Real>(x);
      return static_cast<T>(static_cast<int64_t>((real + (x < 0 ? Real{-0.5} : Real{0.5})) * share));
    }
  }
  HWY_INLINE V Encode(V v) const {
    HWY_ALIGN T lanes[hn::MaxLanes(typename Plain<T>::D())];
    hn::Store(v, this->d, lanes);
    for (T& lane : lanes) lane = Divide(lane);
    return hn::Load(this->d, lanes);
  }
};

template <class T, bool kIsMax>
struct ExtremumOp : Plain<T> {
  using typename Plain<T>::V;
  HWY_INLINE V Combine(V a, V b) const {
    if constexpr (kIsMax) return hn::Max(a, b);
    return hn::Min(a, b);
  }
};

// Floats of any width ordered by a signed integer key: a negative number's bits below the sign are inverted, a NaN gets
// the key that wins. kInfinity is the largest magnitude, as bits, that is not a NaN.
template <class T, T kInfinity, bool kIsMax>
struct FloatExtremumOp : ExtremumOp<T, kIsMax> {
  using typename Plain<T>::V;
  static constexpr T kMagnitude = std::numeric_limits<T>::max();
  static constexpr T kNanKey = kIsMax ? kMagnitude : std::numeric_limits<T>::min();

  HWY_INLINE V Decode(V v, uint32_t /*source*/) const {
    const auto magnitude = hn::Set(this->d, kMagnitude);
    const auto is_nan = hn::Gt(hn::And(v, magnitude), hn::Set(this->d, kInfinity));
    const auto key = hn::Xor(v, hn::And(hn::BroadcastSignBit(v), magnitude));
    return hn::IfThenElse(is_nan, hn::Set(this->d, kNanKey), key);
  }
  // The smallest key stands for no float but MIN's NaN, whose sign is dropped to make it MAX's.
  HWY_INLINE V Encode(V key) const {
    const auto magnitude = hn::Set(this->d, kMagnitude);
    const auto bits = hn::Xor(key, hn::And(hn::BroadcastSignBit(key), magnitude));
    if constexpr (kIsMax) return bits;
    return hn::IfThenElse(hn::Eq(key, hn::Set(this->d, kNanKey)), magnitude, bits);
  }
};

template <class T>
void PremulKernel(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                  const sl_reduce_scale_t* scale) {
  const Buffers buffers = MakeBuffers(dst, dst2, srcs, n_srcs, scale);
  if (scale == nullptr || !AnyInMask(scale->premul_mask, n_srcs)) return Run(SumOp<T>(), buffers, count);
  PremulOp<T> op;
  op.scalar = static_cast<T>(scale->scalar_bits);
  op.mask = scale->premul_mask;
  Run(op, buffers, count);
}

template <class T>
void AverageKernel(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                   const sl_reduce_scale_t* scale) {
  const Buffers buffers = MakeBuffers(dst, dst2, srcs, n_srcs, scale);
  if (scale == nullptr || (scale->flags & SL_REDUCE_FINAL) == 0 || scale->world <= 1) {
    return Run(SumOp<std::make_unsigned_t<T>>(), buffers, count);
  }
  AverageOp<T> op;
  op.world = scale->world;
  op.share = typename AverageOp<T>::Real{1} / static_cast<typename AverageOp<T>::Real>(scale->world);
  Run(op, buffers, count);
}

template <class T>
sl_reduce_fn FindForInt(sl_reduction_t reduction) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (reduction) {
    case SL_SUM:
      return &Kernel<SumOp<Unsigned>>;
    case SL_PROD:
      return &Kernel<ProdOp<Unsigned>>;
    case SL_MAX:
      return &Kernel<ExtremumOp<T, true>>;
    case SL_MIN:
      return &Kernel<ExtremumOp<T, false>>;
    case SL_AVG:
      return &InFloatMode<&AverageKernel<T>>;
    case SL_PREMUL_SUM:
      return &PremulKernel<Unsigned>;
    default:
      return nullptr;
  }
}

template <class T, T kInfinity>
sl_reduce_fn FindForFloat(sl_reduction_t reduction) {
  if (reduction == SL_MAX) return &Kernel<FloatExtremumOp<T, kInfinity, true>>;
  if (reduction == SL_MIN) return &Kernel<FloatExtremumOp<T, kInfinity, false>>;
  return nullptr;
}

sl_reduce_fn FindInt(sl_datatype_t datatype, sl_reduction_t reduction) {
  switch (datatype) {
    case SL_INT8:
      return FindForInt<int8_t>(reduction);
    case SL_UINT8:
      return FindForInt<uint8_t>(reduction);
    case SL_INT32:
      return FindForInt<int32_t>(reduction);
    case SL_UINT32:
      return FindForInt<uint32_t>(reduction);
    case SL_INT64:
      return FindForInt<int64_t>(reduction);
    case SL_UINT64:
      return FindForInt<uint64_t>(reduction);
    case SL_FLOAT16:
      return FindForFloat<int16_t, Float16::kInfinity>(reduction);
    case SL_FLOAT32:
      return FindForFloat<int32_t, 0x7F800000>(reduction);
    case SL_FLOAT64:
      return FindForFloat<int64_t, 0x7FF0000000000000>(reduction);
    case SL_BFLOAT16:
      return FindForFloat<int16_t, BFloat16::kInfinity>(reduction);
    case SL_FLOAT8E4M3:
      return FindForFloat<int8_t, Float8E4M3::kInfinity>(reduction);
    case SL_FLOAT8E5M2:
      return FindForFloat<int8_t, Float8E5M2::kInfinity>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace sl::device_host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sl::device_host {

sl_reduce_fn FindIntReduce(int64_t target, sl_datatype_t datatype, sl_reduction_t reduction) {
#if HWY_TARGETS & HWY_AVX3
  if (target == HWY_AVX3) return N_AVX3::FindInt(datatype, reduction);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == HWY_AVX2) return N_AVX2::FindInt(datatype, reduction);
#endif
  return HWY_STATIC_DISPATCH(FindInt)(datatype, reduction);
}

int64_t CompiledReduceTargets() { return HWY_TARGETS; }

}  // namespace sl::device_host
#endif  // HWY_ONCE

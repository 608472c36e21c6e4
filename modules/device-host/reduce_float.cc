// SPDX-License-Identifier: Apache-2.0
// Sums and products of floats. MIN and MAX are in reduce_int.cc.
#include "modules/device-host/reduce_tables.h"

#include <bit>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "modules/device-host/reduce_float.cc"
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

// A codec moves vectors of a format to and from accumulators V and computes on those. Most accumulators are one vector.
template <class T>
struct OneVector {
  using Acc = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr D d{};
  static HWY_INLINE V Splat(T value) { return hn::Set(d, value); }
  static HWY_INLINE V Add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V Mul(V a, V b) { return hn::Mul(a, b); }
};

// float and double, as they are.
template <class T>
struct WideCodec : OneVector<T> {
  using Lane = T;
  using DM = hn::ScalableTag<T>;
  using V = hn::Vec<DM>;
  static constexpr DM dm{};
  static HWY_INLINE V Decode(V v) { return v; }
  static HWY_INLINE V Encode(V v) { return v; }
  static T Scalar(uint64_t bits) {
    if constexpr (sizeof(T) == 8) {
      return std::bit_cast<double>(bits);
    } else {
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    }
  }
};

// A narrow format with a float accumulator of equally many lanes.
template <class Format>
struct NarrowCodec : OneVector<float> {
  using Lane = typename Format::Lane;
  using DI = hn::RebindToSigned<D>;
  using DM = hn::Rebind<Lane, D>;
  static constexpr DI di{};
  static constexpr DM dm{};
  static float Scalar(uint64_t bits) { return Format::Decode(static_cast<Lane>(bits)); }
};

// Rounds float32 bits so that the upper half is the bfloat16 (Highway's own DemoteTo truncates). A NaN needs no care:
// one computed from bfloat16 is quiet and has a lower half of 0, so the rounding cannot carry into its sign.
template <class DU, class V>
HWY_INLINE V RoundToUpperHalf(DU du, V bits) {
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFF));
}

#if HWY_TARGET == HWY_SCALAR
struct BFloat16Codec : NarrowCodec<BFloat16> {
  static constexpr hn::RebindToUnsigned<DI> du{};
  static HWY_INLINE V Decode(hn::Vec<DM> v) { return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(di, v))); }
  static HWY_INLINE hn::Vec<DM> Encode(V v) {
    const auto upper = hn::ShiftRight<16>(RoundToUpperHalf(du, hn::BitCast(du, v)));
    return hn::DemoteTo(dm, hn::BitCast(di, upper));
  }
};
#else
// Neighbouring elements share a 32-bit lane; the even and the odd ones become two float vectors without a shuffle.
struct BFloat16Codec {
  using Lane = uint16_t;
  using Acc = float;
  using D = hn::ScalableTag<float>;
  using DU = hn::RebindToUnsigned<D>;
  using DM = hn::ScalableTag<uint16_t>;
  struct V {
    hn::Vec<D> even;
    hn::Vec<D> odd;
  };
  static constexpr D d{};
  static constexpr DU du{};
  static constexpr DM dm{};

  static float Scalar(uint64_t bits) { return BFloat16::Decode(static_cast<Lane>(bits)); }
  static HWY_INLINE V Splat(float value) { return {hn::Set(d, value), hn::Set(d, value)}; }
  static HWY_INLINE V Add(V a, V b) { return {hn::Add(a.even, b.even), hn::Add(a.odd, b.odd)}; }
  static HWY_INLINE V Mul(V a, V b) { return {hn::Mul(a.even, b.even), hn::Mul(a.odd, b.odd)}; }
  static HWY_INLINE V Decode(hn::Vec<DM> v) {
    const auto pairs = hn::BitCast(du, v);
    return {hn::BitCast(d, hn::ShiftLeft<16>(pairs)), hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xFFFF0000)))};
  }
  static HWY_INLINE hn::Vec<DM> Encode(V v) {
    const auto even = hn::ShiftRight<16>(RoundToUpperHalf(du, hn::BitCast(du, v.even)));
    const auto odd = hn::And(RoundToUpperHalf(du, hn::BitCast(du, v.odd)), hn::Set(du, 0xFFFF0000));
    return hn::BitCast(dm, hn::Or(even, odd));
  }
};
#endif

// The steps of SmallFloat in sdk/device/float_formats.h on vectors, every case computed and one selected.
template <class Format>
struct SmallCodec : NarrowCodec<Format> {
  using Base = NarrowCodec<Format>;
  using Base::d;
  using Base::di;
  using Base::dm;
  using typename Base::DI;
  using typename Base::DM;
  using typename Base::V;
  static constexpr int kSignShift = 32 - 8 * sizeof(typename Format::Lane);
  static HWY_INLINE hn::Vec<DI> Const(uint32_t bits) { return hn::Set(di, static_cast<int32_t>(bits)); }

  static HWY_INLINE V Decode(hn::Vec<DM> v) {
    const auto code = hn::PromoteTo(di, v);
    const auto magnitude = hn::And(code, Const(Format::kSign - 1));
    const auto sign = hn::ShiftLeft<kSignShift>(hn::And(code, Const(Format::kSign)));
    const auto shifted = hn::ShiftLeft<Format::kShift>(magnitude);
    const auto normal = hn::Add(shifted, Const(Format::kRebias));
    const auto min_normal = Const(Format::kMinNormal);
    const auto subnormal =
        hn::BitCast(di, hn::Sub(hn::BitCast(d, hn::Add(shifted, min_normal)), hn::BitCast(d, min_normal)));
    auto bits = hn::IfThenElse(hn::Lt(shifted, Const(1u << 23)), subnormal, normal);
    if constexpr (Format::kHasInfinity) {
      const auto special = hn::Gt(magnitude, Const(Format::kInfinity - 1));
      bits = hn::IfThenElse(special, hn::Or(shifted, Const(0x7F800000)), bits);
    } else {
      bits = hn::IfThenElse(hn::Gt(magnitude, Const(Format::kInfinity)), Const(0x7FC00000), bits);
    }
    return hn::BitCast(d, hn::Or(bits, sign));
  }

  static HWY_INLINE hn::Vec<DM> Encode(V v) {
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, Const(0x7FFFFFFF));
    const auto moved = hn::ShiftRight<Format::kShift>(magnitude);
    const auto nan = hn::Or(hn::And(moved, Const(Format::kPayload)), Const(Format::kNan));
    const auto magic = Const(Format::kMagic);
    const auto subnormal = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, magic))), magic);
    const auto half = Const((1u << (Format::kShift - 1)) - 1 - Format::kRebias);
    const auto rounded = hn::ShiftRight<Format::kShift>(hn::Add(hn::Add(magnitude, hn::And(moved, Const(1))), half));
    auto code =
        hn::IfThenElse(hn::Lt(magnitude, Const(Format::kMinNormal)), subnormal, hn::Min(rounded, Const(Format::kMax)));
    code = hn::IfThenElse(hn::Gt(magnitude, Const(0x7F800000)), nan, code);
    const auto sign = hn::And(hn::ShiftRight<kSignShift>(bits), Const(Format::kSign));
    return hn::DemoteTo(dm, hn::Or(code, sign));
  }
};

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
// Highway's substitutes for float16 conversions truncate here.
using Float16Codec = SmallCodec<Float16>;
using Float8E4M3Codec = SmallCodec<Float8E4M3>;
using Float8E5M2Codec = SmallCodec<Float8E5M2>;
#else
// The hardware converts float16, and widens the 8-bit formats once their bits are moved into place.
struct Float16Codec : NarrowCodec<Float16> {
  static constexpr hn::Rebind<hwy::float16_t, D> df16{};
  static HWY_INLINE V Decode(hn::Vec<DM> v) { return hn::PromoteTo(d, hn::BitCast(df16, v)); }
  static HWY_INLINE hn::Vec<DM> Encode(V v) { return hn::BitCast(dm, hn::DemoteTo(df16, v)); }
};

// The upper half of a float16.
struct Float8E5M2Codec : SmallCodec<Float8E5M2> {
  static HWY_INLINE V Decode(hn::Vec<DM> v) {
    const hn::Rebind<uint16_t, D> du16;
    return hn::PromoteTo(d, hn::BitCast(Float16Codec::df16, hn::ShiftLeft<8>(hn::PromoteTo(du16, v))));
  }
};

// A float16 with 7 mantissa bits fewer and an exponent bias smaller by 8. Its NaN would become a number.
struct Float8E4M3Codec : SmallCodec<Float8E4M3> {
  static HWY_INLINE V Decode(hn::Vec<DM> v) {
    const hn::Rebind<int8_t, D> di8;
    const hn::Rebind<int16_t, D> di16;
    const auto moved = hn::ShiftLeft<7>(hn::PromoteTo(di16, hn::BitCast(di8, v)));
    const auto magnitude = hn::And(moved, hn::Set(di16, 0x3F80));
    const auto is_nan = hn::Eq(magnitude, hn::Set(di16, 0x3F80));
    const auto number = hn::And(moved, hn::Set(di16, static_cast<int16_t>(0xBF80)));
    const auto code = hn::IfThenElse(is_nan, hn::Set(di16, 0x7E00), number);
    return hn::Mul(hn::PromoteTo(d, hn::BitCast(Float16Codec::df16, code)), hn::Set(d, 256.0f));
  }
};
#endif

template <class Codec>
struct FloatOp : Codec {
  using VM = hn::Vec<typename Codec::DM>;
  static constexpr bool kCopiesOne = true;
  static constexpr bool kPairs = true;
  HWY_INLINE auto Decode(VM v, uint32_t /*source*/) const { return Codec::Decode(v); }
};

template <class Codec>
struct SumOp : FloatOp<Codec> {
  using V = typename Codec::V;
  HWY_INLINE V Combine(V a, V b) const { return Codec::Add(a, b); }
};

template <class Codec>
struct ProdOp : FloatOp<Codec> {
  using V = typename Codec::V;
  HWY_INLINE V Combine(V a, V b) const { return Codec::Mul(a, b); }
};

// AVG and PREMUL_SUM: some sources are multiplied before the sum, the sum after it. Factors of 1 change no bit.
template <class Codec>
struct ScaledSumOp : SumOp<Codec> {
  using V = typename Codec::V;
  using typename FloatOp<Codec>::VM;
  using Acc = typename Codec::Acc;
  static constexpr bool kCopiesOne = false;
  Acc before = 1;
  Acc after = 1;
  uint64_t mask = 0;

  HWY_INLINE V Decode(VM v, uint32_t source) const {
    return Codec::Mul(Codec::Decode(v), Codec::Splat(InMask(mask, source) ? before : Acc{1}));
  }
  HWY_INLINE VM Encode(V v) const { return Codec::Encode(Codec::Mul(v, Codec::Splat(after))); }
};

template <class Codec>
void RunScaled(const ScaledSumOp<Codec>& op, const Buffers& buffers, size_t count) {
  if (op.after == 1 && !AnyInMask(op.mask, buffers.n_srcs)) return Run(SumOp<Codec>(), buffers, count);
  Run(op, buffers, count);
}

template <class Codec>
void PremulKernel(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                  const sl_reduce_scale_t* scale) {
  ScaledSumOp<Codec> op;
  if (scale != nullptr) {
    op.before = Codec::Scalar(scale->scalar_bits);
    op.mask = scale->premul_mask;
  }
  RunScaled(op, MakeBuffers(dst, dst2, srcs, n_srcs, scale), count);
}

template <class Codec>
void AverageKernel(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                   const sl_reduce_scale_t* scale) {
  ScaledSumOp<Codec> op;
  if (scale != nullptr && scale->world > 1) {
    const auto share = typename Codec::Acc{1} / static_cast<typename Codec::Acc>(scale->world);
    if ((scale->flags & SL_REDUCE_FINAL) != 0) {
      op.after = share;
    } else {
      op.before = share;
      op.mask = scale->premul_mask;
    }
  }
  RunScaled(op, MakeBuffers(dst, dst2, srcs, n_srcs, scale), count);
}

template <class Codec>
sl_reduce_fn FindForCodec(sl_reduction_t reduction) {
  switch (reduction) {
    case SL_SUM:
      return &InFloatMode<&Kernel<SumOp<Codec>>>;
    case SL_PROD:
      return &InFloatMode<&Kernel<ProdOp<Codec>>>;
    case SL_AVG:
      return &InFloatMode<&AverageKernel<Codec>>;
    case SL_PREMUL_SUM:
      return &InFloatMode<&PremulKernel<Codec>>;
    default:
      return nullptr;
  }
}

sl_reduce_fn FindFloat(sl_datatype_t datatype, sl_reduction_t reduction) {
  switch (datatype) {
    case SL_FLOAT16:
      return FindForCodec<Float16Codec>(reduction);
    case SL_FLOAT32:
      return FindForCodec<WideCodec<float>>(reduction);
    case SL_FLOAT64:
      return FindForCodec<WideCodec<double>>(reduction);
    case SL_BFLOAT16:
      return FindForCodec<BFloat16Codec>(reduction);
    case SL_FLOAT8E4M3:
      return FindForCodec<Float8E4M3Codec>(reduction);
    case SL_FLOAT8E5M2:
      return FindForCodec<Float8E5M2Codec>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace sl::device_host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sl::device_host {

sl_reduce_fn FindFloatReduce(int64_t target, sl_datatype_t datatype, sl_reduction_t reduction) {
#if HWY_TARGETS & HWY_AVX3
  if (target == HWY_AVX3) return N_AVX3::FindFloat(datatype, reduction);
#endif
#if HWY_TARGETS & HWY_AVX2
  if (target == HWY_AVX2) return N_AVX2::FindFloat(datatype, reduction);
#endif
  return HWY_STATIC_DISPATCH(FindFloat)(datatype, reduction);
}

}  // namespace sl::device_host
#endif  // HWY_ONCE

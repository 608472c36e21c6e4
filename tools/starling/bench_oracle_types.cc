// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the oracle, one class for integers and one for floats.
#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tools/starling/bench_floats.h"
#include "tools/starling/bench_oracle.h"

namespace sl::tools {
namespace {

// A 64-bit mix of (seed, rank, index): xor-shift-multiply rounds, good enough that neighbours look independent.
uint64_t Hash(uint64_t seed, int rank, size_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(rank) * 0xD1B54A32D192ED03u + index + 1;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 29)) * 0xA0761D6478BD642Fu;
  return x ^ (x >> 32);
}

// Ranks that contribute a non-trivial value at `index` when only `limit` of them may; all take turns.
bool TakesPart(int rank, int ranks, size_t index, int limit) {
  return ranks <= limit ||
         (static_cast<size_t>(rank) + index) % static_cast<size_t>(ranks) < static_cast<size_t>(limit);
}

template <typename T>
class IntegerMath final : public ElementMath {
 public:
  using Wide = std::make_unsigned_t<T>;

  void Input(RedOp op, int ranks, int rank, uint64_t seed, size_t index, void* out) const override {
    T value = Value(op, ranks, rank, seed, index);
    std::memcpy(out, &value, sizeof value);
  }

  double Expected(RedOp op, int ranks, uint64_t seed, size_t index, void* out) const override {
    T total = Value(op, ranks, 0, seed, index);
    if (op == RedOp::kMulSum) total = Multiply(total, ScalarOf(0));
    for (int rank = 1; rank < ranks; ++rank) {
      T value = Value(op, ranks, rank, seed, index);
      if (op == RedOp::kMulSum) value = Multiply(value, ScalarOf(rank));
      total = Combine(op, total, value);
    }
    if (op == RedOp::kAvg) total = static_cast<T>(static_cast<uint64_t>(total) / static_cast<uint64_t>(ranks));
    std::memcpy(out, &total, sizeof total);
    return 0;
  }

  bool Close(const void* got, const void* want, double) const override {
    return std::memcmp(got, want, sizeof(T)) == 0;
  }

  void Scalar(int rank, void* out) const override {
    T value = ScalarOf(rank);
    std::memcpy(out, &value, sizeof value);
  }

 private:
  static T ScalarOf(int rank) { return static_cast<T>(1 + rank % 3); }
  static T Multiply(T a, T b) { return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }

  static T Combine(RedOp op, T a, T b) {
    switch (op) {
      case RedOp::kProd:
        return Multiply(a, b);
      case RedOp::kMax:
        return std::max(a, b);
      case RedOp::kMin:
        return std::min(a, b);
      default:
        return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    }
  }

  // Full range, so that sums and products wrap, except for avg: its sum must not wrap and is kept non-negative, since
  // how a wrapped or negative sum divides is not specified. Products take odd numbers, which never lose information.
  static T Value(RedOp op, int ranks, int rank, uint64_t seed, size_t index) {
    uint64_t bits = Hash(seed, rank, index);
    if (op == RedOp::kProd) bits |= 1;
    if (op != RedOp::kAvg) return static_cast<T>(bits);
    const auto top = static_cast<uint64_t>(std::numeric_limits<T>::max());
    const uint64_t share = top / static_cast<uint64_t>(ranks);
    if (share > 0) return static_cast<T>(share == UINT64_MAX ? bits : bits % (share + 1));
    return TakesPart(rank, ranks, index, static_cast<int>(top)) ? static_cast<T>(bits & 1) : T{0};
  }
};

// Native formats look like SmallFloat to FloatMath.
template <typename Native, typename BitsT>
struct NativeFloat {
  using Bits = BitsT;
  static constexpr int kSignificand = std::numeric_limits<Native>::digits;
  static constexpr int kMinExponent = std::numeric_limits<Native>::min_exponent - 1;
  static double Decode(Bits bits) { return static_cast<double>(std::bit_cast<Native>(bits)); }
  static Bits Encode(double value) { return std::bit_cast<Bits>(static_cast<Native>(value)); }
};

template <typename Format>
class FloatMath final : public ElementMath {
 public:
  using Bits = typename Format::Bits;

  void Input(RedOp op, int ranks, int rank, uint64_t seed, size_t index, void* out) const override {
    Bits bits = Value(op, ranks, rank, seed, index);
    std::memcpy(out, &bits, sizeof bits);
  }

  double Expected(RedOp op, int ranks, uint64_t seed, size_t index, void* out) const override {
    long double total = Term(op, ranks, 0, seed, index);
    long double magnitude = std::fabs(total);
    for (int rank = 1; rank < ranks; ++rank) {
      long double value = Term(op, ranks, rank, seed, index);
      magnitude += std::fabs(value);
      total = Combine(op, total, value);
    }
    if (op == RedOp::kAvg) {
      total /= ranks;
      magnitude /= ranks;
    }
    Bits bits = Format::Encode(static_cast<double>(total));
    std::memcpy(out, &bits, sizeof bits);
    return Tolerance(op, ranks, index, static_cast<double>(total), static_cast<double>(magnitude));
  }

  bool Close(const void* got, const void* want, double tolerance) const override {
    Bits have, wanted;
    std::memcpy(&have, got, sizeof have);
    std::memcpy(&wanted, want, sizeof wanted);
    return std::fabs(Format::Decode(have) - Format::Decode(wanted)) <= tolerance;  // false for NaN
  }

  void Scalar(int rank, void* out) const override {
    Bits bits = Format::Encode(ScalarOf(rank));
    std::memcpy(out, &bits, sizeof bits);
  }

 private:
  static double Unit() { return std::ldexp(1.0, -Format::kSignificand); }  // relative error of one rounding

  // Powers of two, so that multiplying is exact; none below one, so that small integers stay integers.
  static double ScalarOf(int rank) { return rank % 2 == 0 ? 1.0 : 2.0; }

  static bool Exact(RedOp op, int ranks, size_t index) {
    if (op == RedOp::kMax || op == RedOp::kMin) return true;
    if (op == RedOp::kProd || index % 2 == 0) return false;
    return op != RedOp::kAvg || (std::has_single_bit(static_cast<unsigned>(ranks)) && ranks <= 64);
  }

  // The bound of any order: every one of ranks-1 additions, the multiplication by the scalar or 1/ranks (itself
  // rounded) and the final rounding err by at most one unit of the sum of magnitudes, or half the smallest number.
  static double Tolerance(RedOp op, int ranks, size_t index, double total, double magnitude) {
    if (Exact(op, ranks, index)) return 0;
    const double roundings = ranks + 3;
    if (op == RedOp::kProd) return std::fabs(total) * std::expm1(roundings * std::log1p(Unit()));
    const double smallest = std::ldexp(1.0, Format::kMinExponent - Format::kSignificand + 1);
    return roundings * (Unit() * magnitude * (1 + ranks * Unit()) + smallest);
  }

  static long double Combine(RedOp op, long double a, long double b) {
    if (op == RedOp::kProd) return a * b;
    if (op == RedOp::kMax) return std::max(a, b);
    if (op == RedOp::kMin) return std::min(a, b);
    return a + b;
  }

  static long double Term(RedOp op, int ranks, int rank, uint64_t seed, size_t index) {
    double value = Format::Decode(Value(op, ranks, rank, seed, index));
    return op == RedOp::kMulSum ? value * ScalarOf(rank) : value;
  }

  static Bits Value(RedOp op, int ranks, int rank, uint64_t seed, size_t index) {
    const uint64_t hash = Hash(seed, rank, index);
    if (op == RedOp::kNone) return static_cast<Bits>(hash);  // copies carry any bits, NaN included
    const double sign = (hash & 1) ? -1.0 : 1.0;
    const double unit = static_cast<double>(hash >> 11) * 0x1p-53;  // [0, 1)
    if (op == RedOp::kMax || op == RedOp::kMin) return Format::Encode(sign * std::ldexp(1 + unit, (hash >> 1) % 7 - 3));
    if (op == RedOp::kProd) {
      // Near one and few, so that no partial product leaves the range of an 8-bit format.
      return Format::Encode(TakesPart(rank, ranks, index, 16) ? sign * (0.875 + 0.25 * unit) : sign);
    }
    if (index % 2 == 0) return Format::Encode(TakesPart(rank, ranks, index, 64) ? sign * (0.25 + 1.75 * unit) : 0.0);
    // Odd places: ±1 and ±2, at most so many that their sum stays exact (mulsum may double them).
    const int limit = Format::kSignificand >= 16 ? 1 << 14 : 1 << std::max(Format::kSignificand - 2, 0);
    if (!TakesPart(rank, ranks, index, limit)) return Format::Encode(0.0);
    return Format::Encode(sign * static_cast<double>(1 + ((hash >> 1) & 1)));
  }
};

}  // namespace

const ElementMath& MathOf(DataType type) {
  static const IntegerMath<int8_t> int8;
  static const IntegerMath<uint8_t> uint8;
  static const IntegerMath<int32_t> int32;
  static const IntegerMath<uint32_t> uint32;
  static const IntegerMath<int64_t> int64;
  static const IntegerMath<uint64_t> uint64;
  static const FloatMath<Float16> half;
  static const FloatMath<NativeFloat<float, uint32_t>> single;
  static const FloatMath<NativeFloat<double, uint64_t>> twice;
  static const FloatMath<Bfloat16> bf16;
  static const FloatMath<Float8E4M3> e4m3;
  static const FloatMath<Float8E5M2> e5m2;
  static const ElementMath* const all[kDataTypeCount] = {&int8, &uint8,  &int32, &uint32, &int64, &uint64,
                                                         &half, &single, &twice, &bf16,   &e4m3,  &e5m2};
  return *all[static_cast<int>(type)];
}

}  // namespace sl::tools

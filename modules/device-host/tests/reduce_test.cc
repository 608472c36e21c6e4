// SPDX-License-Identifier: Apache-2.0
// Every kernel of every instruction set against a scalar oracle that shares no code with the kernels.
#include "modules/device-host/reduce.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "sdk/device/float8_formats.h"

namespace sl::device_host {
namespace {

using dev::BFloat16;
using dev::Float16;
using dev::Float8E4M3;
using dev::Float8E5M2;

// A float format described by its definition.
struct Format {
  int mantissa;
  int bias;
  uint32_t largest;   // code of the largest finite value
  uint32_t infinity;  // its code; 0 when there is none
  bool saturates;     // on rounding, infinities included
  int bits;
};
constexpr Format kFloat16 = {10, 15, 0x7BFF, 0x7C00, false, 16};
constexpr Format kBFloat16 = {7, 127, 0x7F7F, 0x7F80, false, 16};
constexpr Format kFloat8E4M3 = {3, 7, 0x7E, 0, true, 8};
constexpr Format kFloat8E5M2 = {2, 15, 0x7B, 0x7C, true, 8};

// The value of a magnitude code, reading the codes past the largest finite one as if the format went on.
long double Magnitude(const Format& f, uint32_t code) {
  const int exponent = static_cast<int>(code >> f.mantissa);
  const uint32_t fraction = code & ((1u << f.mantissa) - 1);
  if (exponent == 0) return std::ldexp(static_cast<long double>(fraction), 1 - f.bias - f.mantissa);
  return std::ldexp(static_cast<long double>(fraction + (1u << f.mantissa)), exponent - f.bias - f.mantissa);
}

bool IsNanCode(const Format& f, uint32_t code) {
  const uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1);
  return magnitude > f.largest && magnitude != f.infinity;
}

float DecodeExactly(const Format& f, uint32_t code) {
  const uint32_t sign = 1u << (f.bits - 1);
  const uint32_t magnitude = code & (sign - 1);
  float value = static_cast<float>(Magnitude(f, magnitude));
  if (IsNanCode(f, code)) value = std::numeric_limits<float>::quiet_NaN();
  if (f.infinity != 0 && magnitude == f.infinity) value = std::numeric_limits<float>::infinity();
  return (code & sign) != 0 ? -value : value;
}

// Rounds to nearest even by bisection over the codes.
uint32_t EncodeExactly(const Format& f, float value) {
  if (std::isnan(value)) return (1u << (f.bits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (f.bits - 1) : 0;
  const long double wanted = std::fabs(static_cast<long double>(value));
  const uint32_t overflow = f.saturates ? f.largest : f.infinity;
  if (std::isinf(value)) return sign | overflow;
  uint32_t low = 0;
  uint32_t high = f.largest + 1;
  if (wanted >= Magnitude(f, high)) return sign | overflow;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (Magnitude(f, middle) <= wanted ? low : high) = middle;
  }
  const long double below = wanted - Magnitude(f, low);
  const long double above = Magnitude(f, high) - wanted;
  const uint32_t code = below < above || (below == above && low % 2 == 0) ? low : high;
  return sign | (code > f.largest ? overflow : code);
}

const Format* FormatOf(sl_datatype_t type) {
  switch (type) {
    case SL_FLOAT16:
      return &kFloat16;
    case SL_BFLOAT16:
      return &kBFloat16;
    case SL_FLOAT8E4M3:
      return &kFloat8E4M3;
    case SL_FLOAT8E5M2:
      return &kFloat8E5M2;
    default:
      return nullptr;
  }
}

bool IsFloat(sl_datatype_t type) { return type >= SL_FLOAT16; }
bool IsSigned(sl_datatype_t type) { return type == SL_INT8 || type == SL_INT32 || type == SL_INT64; }

// The values of all codes of a narrow format, which the oracle needs more often than is worth computing.
const std::vector<float>& Values(sl_datatype_t type) {
  static std::map<sl_datatype_t, std::vector<float>> all;
  std::vector<float>& values = all[type];
  const Format& format = *FormatOf(type);
  for (uint32_t code = static_cast<uint32_t>(values.size()); code < 1u << format.bits; ++code) {
    values.push_back(DecodeExactly(format, code));
  }
  return values;
}

double ToReal(sl_datatype_t type, uint64_t bits) {
  if (type == SL_FLOAT64) return std::bit_cast<double>(bits);
  if (type == SL_FLOAT32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return Values(type)[bits];
}

uint64_t FromReal(sl_datatype_t type, double value) {
  if (type == SL_FLOAT64) return std::bit_cast<uint64_t>(value);
  const float narrow = static_cast<float>(value);
  if (type == SL_FLOAT32) return std::bit_cast<uint32_t>(narrow);
  return EncodeExactly(*FormatOf(type), narrow);
}

uint64_t Mask(sl_datatype_t type) { return ~uint64_t{0} >> (64 - 8 * DatatypeBytes(type)); }

int64_t SignExtend(sl_datatype_t type, uint64_t bits) {
  const int shift = static_cast<int>(64 - 8 * DatatypeBytes(type));
  return static_cast<int64_t>(bits << shift) >> shift;
}

bool IsPremultiplied(const sl_reduce_scale_t& scale, uint32_t source) {
  return ((scale.premul_mask >> std::min(source, 63u)) & 1) != 0;
}

// Real is the accumulator: every step is rounded to it. volatile keeps a product and a sum from being fused.
template <class Real>
Real FoldFloats(sl_datatype_t type, sl_reduction_t op, const std::vector<uint64_t>& values,
                const sl_reduce_scale_t& scale) {
  const Real share = Real{1} / static_cast<Real>(scale.world);
  volatile Real total = 0;
  for (uint32_t s = 0; s < values.size(); ++s) {
    volatile Real x = static_cast<Real>(ToReal(type, values[s]));
    if (op == SL_PREMUL_SUM && IsPremultiplied(scale, s)) x = x * static_cast<Real>(ToReal(type, scale.scalar_bits));
    if (op == SL_AVG && (scale.flags & SL_REDUCE_FINAL) == 0 && IsPremultiplied(scale, s)) x = x * share;
    if (s == 0) {
      total = x;
    } else if (op == SL_PROD) {
      total = total * x;
    } else {
      total = total + x;
    }
  }
  if (op == SL_AVG && (scale.flags & SL_REDUCE_FINAL) != 0) total = total * share;
  return total;
}

uint64_t FoldExtremum(sl_datatype_t type, sl_reduction_t op, const std::vector<uint64_t>& values) {
  uint64_t best = values[0];
  for (uint64_t bits : values) {
    bool better;
    if (IsFloat(type)) {
      const double x = ToReal(type, bits);
      const double y = ToReal(type, best);
      if (std::isnan(x)) return bits;
      const bool less = x < y || (x == 0 && y == 0 && std::signbit(x) && !std::signbit(y));
      const bool greater = x > y || (x == 0 && y == 0 && !std::signbit(x) && std::signbit(y));
      better = op == SL_MAX ? greater : less;
    } else if (IsSigned(type)) {
      const int64_t x = SignExtend(type, bits);
      const int64_t y = SignExtend(type, best);
      better = op == SL_MAX ? x > y : x < y;
    } else {
      better = op == SL_MAX ? bits > best : bits < best;
    }
    if (better) best = bits;
  }
  return best;
}

uint64_t FoldInts(sl_datatype_t type, sl_reduction_t op, const std::vector<uint64_t>& values,
                  const sl_reduce_scale_t& scale) {
  uint64_t total = op == SL_PROD ? 1 : 0;
  for (uint32_t s = 0; s < values.size(); ++s) {
    const bool scaled = op == SL_PREMUL_SUM && IsPremultiplied(scale, s);
    const uint64_t x = scaled ? values[s] * scale.scalar_bits : values[s];
    total = op == SL_PROD ? total * x : total + x;
  }
  total &= Mask(type);
  if (op != SL_AVG || (scale.flags & SL_REDUCE_FINAL) == 0) return total;
  if (!IsSigned(type)) return total / scale.world;
  return static_cast<uint64_t>(SignExtend(type, total) / static_cast<int64_t>(scale.world)) & Mask(type);
}

uint64_t Expected(sl_datatype_t type, sl_reduction_t op, const std::vector<uint64_t>& values,
                  const sl_reduce_scale_t& scale) {
  if (op == SL_MAX || op == SL_MIN) return FoldExtremum(type, op, values);
  if (!IsFloat(type)) return FoldInts(type, op, values, scale);
  const bool final = op == SL_AVG && (scale.flags & SL_REDUCE_FINAL) != 0;
  const bool scales = final || ((op == SL_AVG || op == SL_PREMUL_SUM) && IsPremultiplied(scale, 0));
  if (values.size() == 1 && !scales) return values[0];
  if (type == SL_FLOAT64) return FromReal(type, FoldFloats<double>(type, op, values, scale));
  return FromReal(type, FoldFloats<float>(type, op, values, scale));
}

bool SameValue(sl_datatype_t type, uint64_t got, uint64_t want) {
  if (got == want) return true;
  return IsFloat(type) && std::isnan(ToReal(type, got)) && std::isnan(ToReal(type, want));
}

uint64_t LoadElement(sl_datatype_t type, const uint8_t* base, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, base + i * DatatypeBytes(type), DatatypeBytes(type));
  return bits;
}

void StoreElement(sl_datatype_t type, uint8_t* base, size_t i, uint64_t bits) {
  std::memcpy(base + i * DatatypeBytes(type), &bits, DatatypeBytes(type));
}

constexpr size_t kElements = 1000;
constexpr size_t kCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, kElements};
constexpr uint8_t kGuard = 0xC3;
constexpr size_t kGuardBytes = 64;

// Elements of one source: all bit patterns, or, for floats, mostly numbers near each other.
std::vector<uint64_t> RandomElements(sl_datatype_t type, bool tame, size_t count, std::mt19937_64& random) {
  std::vector<uint64_t> elements(count);
  for (uint64_t& bits : elements) {
    bits = random() & Mask(type);
    if (tame && IsFloat(type)) {
      const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random() % 4001) - 2000), -9);
      bits = FromReal(type, value);
    }
  }
  return elements;
}

// Which source dst equals; the last two also have a dst2, apart or equal to the last source.
enum class Alias { kNone, kFirst, kSecond, kLast, kSecondOutput, kSecondOutputIsLast };

// One problem: its sources and the oracle's results, reused over counts, places and instruction sets.
class Problem {
 public:
  Problem(sl_datatype_t type, sl_reduction_t op, uint32_t n_srcs, bool tame, const sl_reduce_scale_t& scale,
          size_t elements = kElements)
      : type_(type), op_(op), scale_(scale) {
    std::mt19937_64 random(type * 1000 + op * 100 + n_srcs);
    for (uint32_t s = 0; s < n_srcs; ++s) sources_.push_back(RandomElements(type, tame, elements, random));
    std::vector<uint64_t> column(n_srcs);
    for (size_t i = 0; i < elements; ++i) {
      for (uint32_t s = 0; s < n_srcs; ++s) column[s] = sources_[s][i];
      expected_.push_back(Expected(type, op, column, scale));
    }
  }

  void Check(size_t set, size_t count, size_t misalign, Alias alias) const {
    const size_t bytes = count * DatatypeBytes(type_);
    std::vector<std::vector<uint8_t>> buffers;  // the sources, then dst and dst2
    std::vector<const void*> srcs;
    for (size_t b = 0; b < sources_.size() + 2; ++b) {
      buffers.emplace_back(bytes + 2 * kGuardBytes + misalign, kGuard);
      if (b >= sources_.size()) continue;
      uint8_t* base = buffers[b].data() + kGuardBytes + misalign;
      for (size_t i = 0; i < count; ++i) StoreElement(type_, base, i, sources_[b][i]);
      srcs.push_back(base);
    }
    const size_t last = sources_.size() - 1;
    size_t dst = last + 1;
    if (alias == Alias::kFirst || alias == Alias::kSecondOutput) dst = 0;
    if (alias == Alias::kSecondOutputIsLast) dst = last + 2;
    if (alias == Alias::kSecond) dst = std::min<size_t>(1, last);
    if (alias == Alias::kLast) dst = last;
    uint8_t* out = buffers[dst].data() + kGuardBytes + misalign;
    size_t dst2 = 0;  // as in "none": no case below puts it at source 0
    if (alias == Alias::kSecondOutput) dst2 = last + 2;
    if (alias == Alias::kSecondOutputIsLast) dst2 = std::max<size_t>(last, 1);
    uint8_t* out2 = dst2 != 0 ? buffers[dst2].data() + kGuardBytes + misalign : nullptr;
    const std::vector<std::vector<uint8_t>> before = buffers;

    FindReduceFor(set, type_, op_)(out, out2, srcs.data(), static_cast<uint32_t>(srcs.size()), count, &scale_);

    const std::string where = std::string(InstructionSetName(set)) + " type " + std::to_string(type_) + " op " +
                              std::to_string(op_) + " sources " + std::to_string(srcs.size()) + " count " +
                              std::to_string(count) + " misalign " + std::to_string(misalign) + " alias " +
                              std::to_string(static_cast<int>(alias)) + " flags " + std::to_string(scale_.flags);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t got = LoadElement(type_, out, i);
      ASSERT_TRUE(SameValue(type_, got, expected_[i]))
          << where << " element " << i << std::hex << " got " << got << " want " << expected_[i];
    }
    ASSERT_TRUE(out2 == nullptr || std::memcmp(out, out2, bytes) == 0) << where << ": dst2 differs";
    for (size_t b = 0; b < buffers.size(); ++b) {  // everything else is as it was
      std::vector<uint8_t> restored = buffers[b];
      const bool written = b == dst || (b == dst2 && out2 != nullptr);
      const auto start = static_cast<std::ptrdiff_t>(kGuardBytes + misalign);
      if (written) std::copy_n(before[b].begin() + start, bytes, restored.begin() + start);
      ASSERT_EQ(restored, before[b]) << where << ": wrote outside the output, buffer " << b;
    }
  }

  // Every count on every instruction set, with places and aliases that take turns.
  void CheckCounts(size_t turn) const {
    constexpr size_t kMisalign[] = {0, 1, 4, 24};
    constexpr Alias kAliases[] = {Alias::kNone, Alias::kFirst,        Alias::kSecond,
                                  Alias::kLast, Alias::kSecondOutput, Alias::kSecondOutputIsLast};
    for (size_t set = 0; InstructionSetName(set) != nullptr; ++set) {
      for (size_t count : kCounts) {
        for (size_t pass = 0; pass < 2; ++pass, ++turn) {
          Check(set, count, kMisalign[turn / 2 % 4], kAliases[turn % 6]);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }

 private:
  const sl_datatype_t type_;
  const sl_reduction_t op_;
  const sl_reduce_scale_t scale_;
  std::vector<std::vector<uint64_t>> sources_;
  std::vector<uint64_t> expected_;
};

uint64_t AnyScalar(sl_datatype_t type) { return IsFloat(type) ? FromReal(type, -0.6875) : 3 & Mask(type); }

class Reduce : public testing::TestWithParam<std::tuple<sl_datatype_t, sl_reduction_t>> {};

TEST_P(Reduce, MatchesTheOracleForAnyShape) {
  const auto [type, op] = GetParam();
  size_t turn = 0;
  for (uint32_t n_srcs : {1, 2, 3, 5, 8, 17}) {
    for (bool tame : {false, true}) {
      const sl_reduce_scale_t scale = {AnyScalar(type), 7, SL_REDUCE_FINAL, 0b10110};
      Problem(type, op, n_srcs, tame, scale).CheckCounts(turn++);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Reduce, MatchesTheOracleUnderEveryFlag) {
  const auto [type, op] = GetParam();
  size_t turn = 0;
  for (uint32_t flags : {0u, SL_REDUCE_STREAM_STORES, SL_REDUCE_STREAM_STORES | SL_REDUCE_FINAL}) {
    for (uint32_t world : {1u, 3u, 1024u}) {
      const bool repeats = op != SL_AVG && (world != 3);
      if (repeats) continue;
      const sl_reduce_scale_t scale = {AnyScalar(type), world, flags, ~uint64_t{0} << 1};
      for (uint32_t n_srcs : {2, 3}) Problem(type, op, n_srcs, true, scale).CheckCounts(turn++);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Reduce, TakesMoreThanAThousandSources) {
  const auto [type, op] = GetParam();
  const sl_reduce_scale_t scale = {AnyScalar(type), 1024, SL_REDUCE_FINAL, uint64_t{1} << 63 | 5};
  const Problem problem(type, op, 1025, true, scale, 67);
  for (size_t set = 0; InstructionSetName(set) != nullptr; ++set) problem.Check(set, 67, 0, Alias::kLast);
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOperations, Reduce,
                         testing::Combine(testing::Range(sl_datatype_t{0}, sl_datatype_t{SL_DATATYPE_COUNT}),
                                          testing::Range(sl_reduction_t{0}, sl_reduction_t{SL_REDUCTION_COUNT})));

TEST(FindReduce, IsNullForUnknownTypesAndOperations) {
  EXPECT_EQ(FindReduce(SL_DATATYPE_COUNT, SL_SUM), nullptr);
  EXPECT_EQ(FindReduce(~0u, SL_SUM), nullptr);
  EXPECT_EQ(FindReduce(SL_FLOAT32, SL_REDUCTION_COUNT), nullptr);
  EXPECT_EQ(FindReduce(SL_INT8, ~0u), nullptr);
  EXPECT_EQ(DatatypeBytes(SL_DATATYPE_COUNT), 0u);
  EXPECT_EQ(FindReduceFor(1000, SL_FLOAT32, SL_SUM), nullptr);
  EXPECT_EQ(InstructionSetName(1000), nullptr);
}

TEST(FindReduce, TakesANullScaleAsAPlainSum) {
  const float a[] = {1, 2, 3};
  const float b[] = {10, 20, 30};
  const void* srcs[] = {a, b};
  for (sl_reduction_t op : {SL_SUM, SL_AVG, SL_PREMUL_SUM}) {
    float out[3];
    FindReduce(SL_FLOAT32, op)(out, nullptr, srcs, 2, 3, nullptr);
    EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{11, 22, 33}));
  }
}

template <class Production>
void CheckFormat(const Format& format) {
  using Lane = typename Production::Lane;
  for (uint32_t code = 0; code < 1u << format.bits; ++code) {
    const float value = Production::Decode(static_cast<Lane>(code));
    const float want = DecodeExactly(format, code);
    if (IsNanCode(format, code)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(IsNanCode(format, Production::Encode(value))) << code;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(want)) << code;
    // Around the value itself and around the middle to the next one, where rounding turns.
    const uint32_t magnitude = code & ((1u << (format.bits - 1)) - 1);
    const long double middle = (Magnitude(format, magnitude) + Magnitude(format, magnitude + 1)) / 2;
    const float signed_middle = std::copysign(static_cast<float>(middle), want);
    for (float near : {want, signed_middle}) {
      for (float x : {near, std::nextafter(near, -INFINITY), std::nextafter(near, INFINITY)}) {
        ASSERT_EQ(Production::Encode(x), EncodeExactly(format, x)) << std::hexfloat << x;
      }
    }
  }
  for (float x : {INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -FLT_TRUE_MIN, 0.0f, -0.0f}) {
    ASSERT_EQ(Production::Encode(x), EncodeExactly(format, x)) << std::hexfloat << x;
  }
  ASSERT_TRUE(IsNanCode(format, Production::Encode(std::bit_cast<float>(0x7FFFFFFFu))));
  ASSERT_TRUE(IsNanCode(format, Production::Encode(std::bit_cast<float>(0xFF800001u))));
}

TEST(FloatFormats, ConvertEveryCodeExactly) {
  CheckFormat<Float16>(kFloat16);
  CheckFormat<BFloat16>(kBFloat16);
  CheckFormat<Float8E4M3>(kFloat8E4M3);
  CheckFormat<Float8E5M2>(kFloat8E5M2);
}

TEST(FloatFormats, SaturateOnlyTheEightBitOnes) {
  EXPECT_EQ(Float8E4M3::Decode(Float8E4M3::Encode(1e9f)), 448);
  EXPECT_EQ(Float8E5M2::Decode(Float8E5M2::Encode(-INFINITY)), -57344);
  EXPECT_EQ(Float16::Decode(Float16::Encode(65520)), INFINITY);
  EXPECT_EQ(BFloat16::Decode(BFloat16::Encode(FLT_MAX)), INFINITY);
}

// Runs `op` on two sources made of all pairs (or, of 16-bit formats, of every code with some others).
void CheckPairs(sl_datatype_t type, sl_reduction_t op) {
  const Format& format = *FormatOf(type);
  const size_t bytes = DatatypeBytes(type);
  const uint32_t codes = 1u << format.bits;
  std::vector<uint8_t> a(codes * bytes);
  std::vector<uint8_t> b(codes * bytes);
  std::vector<uint8_t> out(codes * bytes);
  const void* srcs[] = {a.data(), b.data()};
  const uint32_t step = format.bits == 8 ? 1 : 9973;
  for (uint32_t other = 0; other < codes; other += step) {
    std::vector<uint64_t> want(codes);
    for (uint32_t code = 0; code < codes; ++code) {
      StoreElement(type, a.data(), code, code);
      StoreElement(type, b.data(), code, other);
      want[code] = Expected(type, op, {code, other}, {});
    }
    for (size_t set = 0; InstructionSetName(set) != nullptr; ++set) {
      FindReduceFor(set, type, op)(out.data(), nullptr, srcs, 2, codes, nullptr);
      for (uint32_t code = 0; code < codes; ++code) {
        const uint64_t got = LoadElement(type, out.data(), code);
        ASSERT_TRUE(SameValue(type, got, want[code]))
            << InstructionSetName(set) << " type " << type << " op " << op << std::hex << " codes " << code << " and "
            << other << " got " << got << " want " << want[code];
      }
    }
  }
}

TEST(ReduceRules, RoundsEveryPairOfNarrowFloatsOnce) {
  for (sl_datatype_t type : {SL_FLOAT16, SL_BFLOAT16, SL_FLOAT8E4M3, SL_FLOAT8E5M2}) {
    for (sl_reduction_t op : {SL_SUM, SL_PROD, SL_MAX, SL_MIN}) CheckPairs(type, op);
  }
}

TEST(ReduceRules, LetsANanWinFromAnyPlace) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float sources[3][3] = {{nan, 1, INFINITY}, {2, -nan, 2}, {3, -INFINITY, nan}};
  const void* srcs[] = {sources[0], sources[1], sources[2]};
  for (sl_reduction_t op : {SL_SUM, SL_PROD, SL_MAX, SL_MIN}) {
    float out[3] = {};
    FindReduce(SL_FLOAT32, op)(out, nullptr, srcs, 3, 3, nullptr);
    for (float x : out) EXPECT_TRUE(std::isnan(x)) << "op " << op;
  }
}

TEST(ReduceRules, OrdersZerosBySign) {
  const double plus[] = {0.0, -0.0};
  const double minus[] = {-0.0, 0.0};
  const void* srcs[] = {plus, minus};
  double out[2];
  FindReduce(SL_FLOAT64, SL_MAX)(out, nullptr, srcs, 2, 2, nullptr);
  EXPECT_FALSE(std::signbit(out[0]) || std::signbit(out[1]));
  FindReduce(SL_FLOAT64, SL_MIN)(out, nullptr, srcs, 2, 2, nullptr);
  EXPECT_TRUE(std::signbit(out[0]) && std::signbit(out[1]));
}

TEST(ReduceRules, AveragesWithoutOverflowWhenScaledEarly) {
  const std::vector<uint16_t> big(100, Float16::Encode(60000));
  const sl_reduce_scale_t early = {0, 2, 0, 3};
  const sl_reduce_scale_t late = {0, 2, SL_REDUCE_FINAL, 0};
  std::vector<uint16_t> out(100);
  const void* srcs[] = {big.data(), big.data()};
  for (const sl_reduce_scale_t* scale : {&early, &late}) {
    FindReduce(SL_FLOAT16, SL_AVG)(out.data(), nullptr, srcs, 2, 100, scale);
    EXPECT_EQ(out, big);
  }
}

}  // namespace
}  // namespace sl::device_host

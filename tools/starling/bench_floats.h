// SPDX-License-Identifier: Apache-2.0
// Small floating-point formats, for the oracle that checks results. Written for plainness, not speed, and on purpose
// sharing nothing with the code under test: both directions go through double and the definition of the format.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace sl::tools {

// A binary format with a sign bit, `kExponentBits` and `kMantissaBits`. When `kFinite`, the top exponent holds numbers
// too and only all-ones is NaN (OCP e4m3); otherwise it holds infinities and NaN as in IEEE 754.
template <typename BitsT, int kExponentBits, int kMantissaBits, bool kFinite>
struct SmallFloat {
  using Bits = BitsT;
  static constexpr int kSignificand = kMantissaBits + 1;  // bits, the hidden one included
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kTop = (1 << kExponentBits) - 1;  // the all-ones exponent
  static constexpr int kMinExponent = 1 - kBias;         // of the smallest normal number
  static constexpr Bits kMantissaMask = static_cast<Bits>((1u << kMantissaBits) - 1);
  static constexpr Bits kSign = static_cast<Bits>(1u << (kExponentBits + kMantissaBits));
  static constexpr Bits kNan = static_cast<Bits>((kTop << kMantissaBits) | kMantissaMask);

  static double Max() {
    int exponent = (kFinite ? kTop : kTop - 1) - kBias;
    double significand = kFinite ? 2.0 - std::ldexp(2.0, -kMantissaBits) : 2.0 - std::ldexp(1.0, -kMantissaBits);
    return std::ldexp(significand, exponent);
  }

  static double Decode(Bits bits) {
    int exponent = (bits >> kMantissaBits) & kTop;
    int mantissa = bits & kMantissaMask;
    double sign = (bits & kSign) ? -1.0 : 1.0;
    if (exponent == kTop && (!kFinite || mantissa == kMantissaMask)) {
      if (kFinite || mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
      return sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, kMinExponent - kMantissaBits);
    return sign * std::ldexp(mantissa + (1 << kMantissaBits), exponent - kBias - kMantissaBits);
  }

  // Rounds to nearest, ties to even. What is too large becomes infinity, or NaN in a format that has none.
  static Bits Encode(double value) {
    if (std::isnan(value)) return kNan;
    Bits sign = std::signbit(value) ? kSign : Bits{0};
    double magnitude = std::fabs(value);
    Bits overflow = static_cast<Bits>(kFinite ? kNan : kTop << kMantissaBits);
    if (std::isinf(magnitude)) return static_cast<Bits>(sign | overflow);
    if (magnitude == 0) return sign;
    int exponent = std::ilogb(magnitude);
    if (exponent < kMinExponent) exponent = kMinExponent;
    // Units of the last place at this exponent; nearbyint() rounds ties to even in the default mode.
    double units = std::nearbyint(std::ldexp(magnitude, kMantissaBits - exponent));
    double rounded = std::ldexp(units, exponent - kMantissaBits);
    if (rounded > Max()) return static_cast<Bits>(sign | overflow);
    if (units >= std::ldexp(1.0, kMantissaBits + 1)) {  // rounding carried into the next binade
      units /= 2;
      ++exponent;
    }
    auto whole = static_cast<uint32_t>(units);
    uint32_t hidden = 1u << kMantissaBits;
    if (whole < hidden) return static_cast<Bits>(sign | whole);  // subnormal
    return static_cast<Bits>(sign | static_cast<uint32_t>(exponent + kBias) << kMantissaBits | (whole - hidden));
  }
};

using Float16 = SmallFloat<uint16_t, 5, 10, false>;
using Bfloat16 = SmallFloat<uint16_t, 8, 7, false>;
using Float8E4M3 = SmallFloat<uint8_t, 4, 3, true>;
using Float8E5M2 = SmallFloat<uint8_t, 5, 2, false>;

}  // namespace sl::tools

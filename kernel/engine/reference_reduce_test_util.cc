// SPDX-License-Identifier: Apache-2.0
#include "kernel/engine/reference_reduce_test_util.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace sl::kernel {
namespace {

// Small floating-point formats: mantissa bits and bias. Only finite values occur in tests.
struct Format {
  int bytes;
  int mantissa;
  int bias;
};

constexpr Format FormatOf(sl_datatype_t datatype) {
  if (datatype == SL_FLOAT16) return {2, 10, 15};
  if (datatype == SL_BFLOAT16) return {2, 7, 127};
  if (datatype == SL_FLOAT8E4M3) return {1, 3, 7};
  return {1, 2, 15};  // SL_FLOAT8E5M2
}

double Decode(uint32_t bits, const Format& format) {
  const uint32_t magnitude = bits & ((1u << (8 * format.bytes - 1)) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  const double mantissa = magnitude & ((1u << format.mantissa) - 1);
  const double value = exponent == 0
                           ? std::ldexp(mantissa, 1 - format.bias - format.mantissa)
                           : std::ldexp(mantissa + (1u << format.mantissa), exponent - format.bias - format.mantissa);
  return magnitude != bits ? -value : value;
}

// To nearest even; subnormals too.
uint32_t Encode(double value, const Format& format) {
  const uint32_t sign = std::signbit(value) ? 1u << (8 * format.bytes - 1) : 0;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(std::fabs(value), &exponent);
  const int lowest = std::max(exponent - 1, 1 - format.bias) - format.mantissa;
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::fabs(value), -lowest)));
  // A carry out of the mantissa moves into the exponent by itself.
  const auto biased = static_cast<uint32_t>(lowest + format.mantissa + format.bias - 1);
  return sign | ((biased << format.mantissa) + units);
}

template <typename T>
T Load(const void* buffer, uint64_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(buffer) + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void Store(void* buffer, uint64_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(buffer) + index * sizeof(T), &value, sizeof(T));
}

template <sl_datatype_t kType>
auto Native() {
  if constexpr (kType == SL_INT8) return int8_t{};
  if constexpr (kType == SL_UINT8) return uint8_t{};
  if constexpr (kType == SL_INT32) return int32_t{};
  if constexpr (kType == SL_UINT32) return uint32_t{};
  if constexpr (kType == SL_INT64) return int64_t{};
  if constexpr (kType == SL_UINT64) return uint64_t{};
  if constexpr (kType == SL_FLOAT32) return float{};
  if constexpr (kType == SL_FLOAT64) return double{};
  if constexpr (kType == SL_FLOAT16 || kType == SL_BFLOAT16) return uint16_t{};
  if constexpr (kType == SL_FLOAT8E4M3 || kType == SL_FLOAT8E5M2) return uint8_t{};
}
template <sl_datatype_t kType>
constexpr bool kSmall = kType == SL_FLOAT16 || kType == SL_BFLOAT16 || kType == SL_FLOAT8E4M3 || kType == SL_FLOAT8E5M2;

// What a type computes in: unsigned 64-bit for integers, so that overflow wraps.
template <sl_datatype_t kType>
struct Compute {
  using Element = decltype(Native<kType>());
  static constexpr bool kInteger = std::is_integral_v<Element> && !kSmall<kType>;
  using Wide = std::conditional_t<kInteger, std::conditional_t<std::is_signed_v<Element>, int64_t, uint64_t>, double>;

  static Wide Read(const void* buffer, uint64_t index) {
    const auto raw = Load<Element>(buffer, index);
    if constexpr (kSmall<kType>) {
      return Decode(raw, FormatOf(kType));
    } else {
      return static_cast<Wide>(raw);
    }
  }
  static void Write(void* buffer, uint64_t index, Wide value) {
    if constexpr (kSmall<kType>) {
      Store<Element>(buffer, index, static_cast<Element>(Encode(value, FormatOf(kType))));
    } else {
      Store<Element>(buffer, index, static_cast<Element>(value));
    }
  }
};

template <typename Wide>
Wide Combine(sl_reduction_t op, Wide a, Wide b) {
  if (op == SL_MAX) return std::max(a, b);
  if (op == SL_MIN) return std::min(a, b);
  if constexpr (std::is_integral_v<Wide>) {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<Wide>(op == SL_PROD ? x * y : x + y);
  } else {
    return op == SL_PROD ? a * b : a + b;
  }
}

template <sl_datatype_t kType, sl_reduction_t kOp>
void ReduceElements(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                    const sl_reduce_scale_t* scale) {
  using Type = Compute<kType>;
  using Wide = typename Type::Wide;
  const sl_reduce_scale_t plain{};
  const sl_reduce_scale_t& s = scale == nullptr ? plain : *scale;
  const auto world = static_cast<Wide>(std::max(s.world, 1u));
  for (size_t i = 0; i < count; ++i) {
    Wide sum{};
    for (uint32_t k = 0; k < n_srcs; ++k) {
      Wide value = Type::Read(srcs[k], i);
      const bool raw = (s.premul_mask >> std::min(k, 63u) & 1) != 0;
      if (raw && kOp == SL_PREMUL_SUM) value = value * Type::Read(&s.scalar_bits, 0);
      if (raw && kOp == SL_AVG && !Type::kInteger) value = value / world;
      sum = k == 0 ? value : Combine(kOp, sum, value);
    }
    if (kOp == SL_AVG && (s.flags & SL_REDUCE_FINAL) != 0) sum = sum / world;
    Type::Write(dst, i, sum);
    if (dst2 != nullptr) Type::Write(dst2, i, sum);
  }
}

template <sl_datatype_t kType, size_t... kOps>
constexpr auto RowOf(std::index_sequence<kOps...>) {
  return std::array<sl_reduce_fn, SL_REDUCTION_COUNT>{ReduceElements<kType, kOps>...};
}
template <size_t... kTypes>
constexpr auto TableOf(std::index_sequence<kTypes...>) {
  return std::array<std::array<sl_reduce_fn, SL_REDUCTION_COUNT>, SL_DATATYPE_COUNT>{
      RowOf<kTypes>(std::make_index_sequence<SL_REDUCTION_COUNT>())...};
}
constexpr auto kTable = TableOf(std::make_index_sequence<SL_DATATYPE_COUNT>());

template <size_t... kTypes>
double ReadAny(const void* buffer, uint64_t index, sl_datatype_t datatype, std::index_sequence<kTypes...>) {
  double value = 0;
  ((kTypes == datatype ? void(value = static_cast<double>(Compute<kTypes>::Read(buffer, index))) : void()), ...);
  return value;
}
template <size_t... kTypes>
void WriteAny(void* buffer, uint64_t index, sl_datatype_t datatype, double value, std::index_sequence<kTypes...>) {
  ((kTypes == datatype ? Compute<kTypes>::Write(buffer, index, static_cast<typename Compute<kTypes>::Wide>(value))
                       : void()),
   ...);
}

sl_status_t Info(sl_device_t*, sl_device_info_t* out_info) {
  out_info->kind = SL_DEVICE_HOST;
  out_info->capabilities = SL_DEVICE_MEMORY_IS_HOST;
  return SL_OK;
}

sl_reduce_fn FindReduce(sl_device_t*, sl_datatype_t datatype, sl_reduction_t reduction) {
  return datatype < SL_DATATYPE_COUNT && reduction < SL_REDUCTION_COUNT ? kTable[datatype][reduction] : nullptr;
}

}  // namespace

const sl_device_ops_t* ReferenceDeviceOps() {
  static const sl_device_ops_t kOps = [] {
    sl_device_ops_t ops{};
    ops.struct_size = sizeof(ops);
    ops.info = Info;
    ops.reduce_function = FindReduce;
    return ops;
  }();
  return &kOps;
}

double ReadElement(const void* buffer, uint64_t index, sl_datatype_t datatype) {
  return ReadAny(buffer, index, datatype, std::make_index_sequence<SL_DATATYPE_COUNT>());
}

void WriteElement(void* buffer, uint64_t index, sl_datatype_t datatype, double value) {
  WriteAny(buffer, index, datatype, value, std::make_index_sequence<SL_DATATYPE_COUNT>());
}

uint64_t ScalarBits(sl_datatype_t datatype, double value) {
  uint64_t bits = 0;
  WriteElement(&bits, 0, datatype, value);
  return bits;
}

double Precision(sl_datatype_t datatype) {
  switch (datatype) {
    case SL_FLOAT32:
      return std::ldexp(1.0, -24);
    case SL_FLOAT64:
      return std::ldexp(1.0, -53);
    case SL_FLOAT16:
    case SL_BFLOAT16:
    case SL_FLOAT8E4M3:
    case SL_FLOAT8E5M2:
      return std::ldexp(1.0, -FormatOf(datatype).mantissa - 1);
    default:
      return 0;
  }
}

}  // namespace sl::kernel

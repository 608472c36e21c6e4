// SPDX-License-Identifier: Apache-2.0
//
// One collective with buffers of every rank and what must be in them afterwards; for hosts and GPUs.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "modules/algo-symmetric/families/family.h"
#include "sdk/datatype.h"
#include "sdk/device/element.h"

namespace sl::algo_symmetric {

// Calls run(format), a null pointer to the format of a data type.
template <typename Run>
void WithFormat(sl_datatype_t datatype, const Run& run) {
  switch (datatype) {
    case SL_INT8:
      return run(static_cast<dev::FormatOf<SL_INT8>*>(nullptr));
    case SL_UINT8:
      return run(static_cast<dev::FormatOf<SL_UINT8>*>(nullptr));
    case SL_INT32:
      return run(static_cast<dev::FormatOf<SL_INT32>*>(nullptr));
    case SL_UINT32:
      return run(static_cast<dev::FormatOf<SL_UINT32>*>(nullptr));
    case SL_INT64:
      return run(static_cast<dev::FormatOf<SL_INT64>*>(nullptr));
    case SL_UINT64:
      return run(static_cast<dev::FormatOf<SL_UINT64>*>(nullptr));
    case SL_FLOAT16:
      return run(static_cast<dev::FormatOf<SL_FLOAT16>*>(nullptr));
    case SL_FLOAT32:
      return run(static_cast<dev::FormatOf<SL_FLOAT32>*>(nullptr));
    case SL_FLOAT64:
      return run(static_cast<dev::FormatOf<SL_FLOAT64>*>(nullptr));
    case SL_BFLOAT16:
      return run(static_cast<dev::FormatOf<SL_BFLOAT16>*>(nullptr));
    case SL_FLOAT8E4M3:
      return run(static_cast<dev::FormatOf<SL_FLOAT8E4M3>*>(nullptr));
    default:
      return run(static_cast<dev::FormatOf<SL_FLOAT8E5M2>*>(nullptr));
  }
}

// The bytes of a buffer, to be copied to an address that is a multiple of 16.
struct Image {
  struct alignas(16) Line {
    uint8_t bytes[16];
  };
  std::vector<Line> lines;

  void Assign(uint64_t bytes, uint8_t fill) {
    lines.resize(bytes / sizeof(Line) + 1);
    std::memset(lines.data(), fill, size());
  }
  uint64_t size() const { return lines.size() * sizeof(Line); }
  uint8_t* data() { return lines[0].bytes; }
};

// Elements are small whole numbers, which every format holds, also summed over a few ranks.
struct Case {
  sl_op_t op{};
  const Family* family = &families::kStaged;
  uint32_t size = 0;
  uint32_t offset = 0;  // of the buffers in their images, in elements
  int32_t askew = -1;   // the only rank whose buffers begin an element further on; -1: none
  bool in_place = false;
  std::vector<Image> send, recv;

  static bool ManyIn(sl_op_kind_t kind) {
    return kind == SL_OP_REDUCE_SCATTER || kind == SL_OP_ALL_TO_ALL || kind == SL_OP_SCATTER;
  }
  static bool ManyOut(sl_op_kind_t kind) {
    return kind == SL_OP_ALL_GATHER || kind == SL_OP_ALL_TO_ALL || kind == SL_OP_GATHER;
  }
  static Case Random(uint32_t size, std::mt19937& random);

  // (Re)makes the buffers, after fields were set.
  void Fill();
  // The operation of rank r, whose images lie at these addresses.
  sl_op_t For(uint32_t r, uint8_t* send_at, uint8_t* recv_at) const;
  sl_op_t For(uint32_t r) { return For(r, send[r].data(), recv[r].data()); }
  // "", or what is wrong in the recv images.
  std::string Wrong();

 private:
  static constexpr double kScalar = 2;
  static constexpr uint8_t kUntouched = 0x5A;

  uint64_t Element() const { return DatatypeBytes(op.datatype); }
  uint64_t InCount() const { return op.count * (ManyIn(op.kind) ? size : 1); }
  uint64_t OutCount() const { return op.count * (ManyOut(op.kind) ? size : 1); }
  uint64_t RecvOffset(uint32_t r) const { return (offset + (askew == static_cast<int32_t>(r) ? 1 : 0)) * Element(); }
  // In place, a rank's contribution lies where its part of the result will be.
  uint64_t SendOffset(uint32_t r) const {
    const bool inside = in_place && ManyOut(op.kind) && !ManyIn(op.kind);
    return RecvOffset(r) + (inside ? r * op.count * Element() : 0);
  }
  bool Receives(uint32_t r) const {
    return (op.kind != SL_OP_REDUCE && op.kind != SL_OP_GATHER) || op.root == static_cast<int32_t>(r);
  }
  static double Value(uint32_t rank, uint64_t i) { return static_cast<double>((rank * 5 + i * 3 + i / 7) % 3); }
  double Moved(uint32_t r, uint64_t i) const;
  double Reduced(uint32_t r, uint64_t i) const;
  template <typename F>
  static typename F::Lane Encoded(double value);
  template <typename F>
  typename F::Lane Wanted(uint32_t r, uint64_t i) const;
};

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/tests/collective_case.h"

#include <cmath>

namespace sl::algo_symmetric {

template <typename F>
typename F::Lane Case::Encoded(double value) {
  if constexpr (std::is_integral_v<typename F::Acc>) {
    return static_cast<typename F::Lane>(static_cast<int64_t>(value));
  } else {
    return F::Encode(static_cast<typename F::Acc>(value));
  }
}

Case Case::Random(uint32_t size, std::mt19937& random) {
  constexpr uint64_t kCounts[] = {1, 2, 3, 13, 64, 100, 257, 700, 3001, 9000};
  Case one;
  one.size = size;
  one.op.struct_size = sizeof(one.op);
  one.op.kind = static_cast<sl_op_kind_t>(random() % 8);
  one.op.datatype = static_cast<sl_datatype_t>(random() % SL_DATATYPE_COUNT);
  one.op.reduction = static_cast<sl_reduction_t>(random() % SL_REDUCTION_COUNT);
  one.op.root = static_cast<int32_t>(random() % size);
  one.op.count = kCounts[random() % std::size(kCounts)];
  one.family = kFamilies[random() % kFamilies.size()];
  one.offset = random() % 3 == 0 ? random() % 16 : 0;
  if (random() % 4 == 0) one.askew = static_cast<int32_t>(random() % size);
  one.in_place = random() % 4 == 0 && one.op.kind != SL_OP_REDUCE_SCATTER && one.op.kind != SL_OP_SCATTER;
  one.Fill();
  return one;
}

void Case::Fill() {
  send.assign(size, {});
  recv.assign(size, {});
  WithFormat(op.datatype, [&](auto* format) {
    using F = std::remove_pointer_t<decltype(format)>;
    for (uint32_t r = 0; r < size; ++r) {
      const uint64_t bytes =
          (offset + 1) * Element() + std::max(InCount(), OutCount()) * Element() + sizeof(Image::Line);
      send[r].Assign(bytes, 0xA5);
      recv[r].Assign(bytes, kUntouched);
      uint8_t* to = (in_place ? recv[r] : send[r]).data() + SendOffset(r);
      for (uint64_t i = 0; i < InCount(); ++i) {
        const typename F::Lane lane = Encoded<F>(Value(r, i));
        std::memcpy(to + i * Element(), &lane, Element());
      }
    }
    const typename F::Lane scalar = Encoded<F>(kScalar);
    std::memcpy(&op.scalar_bits, &scalar, Element());
  });
}

sl_op_t Case::For(uint32_t r, uint8_t* send_at, uint8_t* recv_at) const {
  sl_op_t mine = op;
  mine.send = (in_place ? recv_at : send_at) + SendOffset(r);
  mine.recv = recv_at + RecvOffset(r);
  return mine;
}

// Where element i of rank r's result comes from when nothing is reduced.
double Case::Moved(uint32_t r, uint64_t i) const {
  const uint64_t n = op.count;
  const auto root = static_cast<uint32_t>(op.root);
  if (op.kind == SL_OP_BROADCAST) return Value(root, i);
  if (op.kind == SL_OP_SCATTER) return Value(root, r * n + i);
  return Value(static_cast<uint32_t>(i / n), (op.kind == SL_OP_ALL_TO_ALL ? r * n : 0) + i % n);
}

double Case::Reduced(uint32_t r, uint64_t i) const {
  const uint64_t at = op.kind == SL_OP_REDUCE_SCATTER ? r * op.count + i : i;
  const double factor = op.reduction == SL_PREMUL_SUM ? kScalar : 1;
  double value = Value(0, at) * factor;
  for (uint32_t s = 1; s < size; ++s) {
    const double one = Value(s, at) * factor;
    if (op.reduction == SL_PROD) {
      value *= one;
    } else if (op.reduction == SL_MAX) {
      value = std::max(value, one);
    } else if (op.reduction == SL_MIN) {
      value = std::min(value, one);
    } else {
      value += one;
    }
  }
  return value;
}

template <typename F>
typename F::Lane Case::Wanted(uint32_t r, uint64_t i) const {
  if (!HasReduction(op.kind)) return Encoded<F>(Moved(r, i));
  const double value = Reduced(r, i);
  if (op.reduction != SL_AVG) return Encoded<F>(value);
  if constexpr (std::is_integral_v<typename F::Acc>) {
    return Encoded<F>(std::trunc(value / static_cast<double>(size)));
  } else {
    using Acc = typename F::Acc;
    return Encoded<F>(static_cast<double>(static_cast<Acc>(value) * (Acc{1} / static_cast<Acc>(size))));
  }
}

std::string Case::Wrong() {
  std::string wrong;
  const auto say = [&](uint32_t r, const std::string& what) {
    wrong = std::string(OpKindName(op.kind)) + " " + DatatypeName(op.datatype) + " " + ReductionName(op.reduction) +
            " count " + std::to_string(op.count) + " root " + std::to_string(op.root) + " offset " +
            std::to_string(offset) + (askew < 0 ? "" : ", of rank " + std::to_string(askew) + " one more,") +
            (in_place ? " in place, " : ", ") + family->words + ": rank " + std::to_string(r) + " of " +
            std::to_string(size) + ": " + what;
  };
  WithFormat(op.datatype, [&](auto* format) {
    using F = std::remove_pointer_t<decltype(format)>;
    for (uint32_t r = 0; r < size && wrong.empty(); ++r) {
      if (!Receives(r)) continue;
      const uint8_t* result = recv[r].data() + RecvOffset(r);
      for (uint64_t i = 0; i < OutCount() && wrong.empty(); ++i) {
        const typename F::Lane lane = Wanted<F>(r, i);
        if (std::memcmp(result + i * Element(), &lane, Element()) != 0) say(r, "element " + std::to_string(i));
      }
      const bool last = !in_place || OutCount() >= InCount();
      if (wrong.empty() && last && result[OutCount() * Element()] != kUntouched) say(r, "wrote past the end");
    }
  });
  return wrong;
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
//
// Reducing ranges of bytes, one of each rank, by all threads of a block, in rank order, with many loads in flight and
// whatever the alignment.
#pragma once

#include "modules/algo-symmetric/kernels/cut.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/ahead.h"
#include "sdk/device/block.h"
#include "sdk/device/shifted.h"

namespace sl::algo_symmetric::kernels {

// Whether any operand has vectors of another alignment than where the reduction goes.
template <typename In>
SL_HD bool IsShifted(const In& in) {
  for (uint32_t r = 0; r < in.size; ++r) {
    if (ShiftOf(in.Of(r), in.To()) != 0) return true;
  }
  return false;
}

// What is reduced, of every rank as many bytes, and where their reduction goes: the staged pieces of a round.
struct Operands {
  const uint8_t* staged;  // rank 0's; the others at multiples of `stride`
  uint64_t stride;
  const uint8_t* own;  // read instead of this rank's
  uint8_t* to;
  uint8_t* kept;  // NULL: one destination
  uint32_t bytes;
  uint32_t rank;
  uint32_t size;
  uint32_t average_over;

  SL_HD const uint8_t* Of(uint32_t r) const { return r == rank ? own : staged + r * stride; }
  SL_HD const uint8_t* To() const { return to; }
  SL_HD Vectors Cut() const {
    const bool alike = kept == nullptr || ShiftOf(kept, to) == 0;
    return Vectors::Of(bytes, alike ? ToVector(to) : bytes, IsShifted(*this), 0, 0);
  }
  SL_HD void Keep(uint64_t at, const dev::Vec16& result) const {
    dev::Store(to + at, result);
    if (kept != nullptr) dev::Store(kept + at, result);
  }
  SL_HD static bool KeepsParts() { return false; }
  SL_HD void KeepUnlike(uint64_t at, const dev::Vec16& result) const { Keep(at, result); }
  template <typename Lane>
  SL_HD void KeepElement(uint64_t at, Lane result) const {
    dev::StoreElement(to + at, result);
    if (kept != nullptr) dev::StoreElement(kept + at, result);
  }
};

// Its vectors, at several places abreast. Those of one rank after the other are asked for well ahead of their turn, so
// that one loop serves all numbers of ranks.
template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceVectors(const dev::Block& block, const In& in, const Vectors& vectors) {
  constexpr uint32_t kAbreast = dev::Ahead::kAbreast;
  const uint32_t threads = block.threads();
  const uint32_t total = vectors.count;
  dev::Ahead ahead;
  uint32_t asked = block.thread();
  uint32_t asked_of = 0;
  const auto ask = [&] {
    const uint8_t* from = in.Of(asked_of) + vectors.first + uint64_t{asked} * kVectorBytes;
    ahead.Ask(from, threads, asked < total ? total - asked : 0);
    if (++asked_of < in.size) return;
    asked_of = 0;
    asked += kAbreast * threads;
  };
  SL_ROLLED
  for (uint32_t turn = 0; turn < dev::Ahead::kDepth; ++turn) ask();
  for (uint32_t first = block.thread(); first < total; first += kAbreast * threads) {
    dev::Accumulator<F, kReduction, kVectorBytes> sums[kAbreast];
    dev::Vec16 v[kAbreast];
    ahead.Take(v);
    SL_UNROLL
    for (uint32_t k = 0; k < kAbreast; ++k) sums[k].Start(v[k]);
    ask();
    SL_ROLLED
    for (uint32_t r = 1; r < in.size; ++r) {
      ahead.Take(v);
      SL_UNROLL
      for (uint32_t k = 0; k < kAbreast; ++k) sums[k].Add(v[k]);
      ask();
    }
    SL_UNROLL
    for (uint32_t k = 0; k < kAbreast; ++k) {
      const uint32_t i = first + k * threads;
      if (i < total) in.Keep(vectors.first + uint64_t{i} * kVectorBytes, sums[k].Finish(in.average_over));
    }
  }
}

// The same, where operands are aligned otherwise than their reduction. Either that is stored in parts, or of these each
// vector is put together from two, which are asked for abreast, and two turns come where others have one.
template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceShifted(const dev::Block& block, const In& in, const Vectors& vectors) {
  static_assert(dev::Ahead::kAbreast == 2);
  const uint32_t threads = block.threads();
  const uint32_t total = vectors.count;
  const auto shift_of = [&](uint32_t r) { return Low(in.Of(r) + vectors.first) % kVectorBytes; };
  dev::Ahead ahead;
  uint32_t asked = block.thread();
  uint32_t asked_of = 0;
  bool asked_half = false;  // the first of two turns
  const auto ask = [&] {
    const uint32_t i = asked_half ? asked + threads : asked;
    const uint32_t left = i < total ? total - i : 0;
    const uint32_t shift = shift_of(asked_of);
    const uint8_t* from = in.Of(asked_of) + vectors.first + uint64_t{i} * kVectorBytes - shift;
    ahead.Ask(from, shift == 0 ? threads : 1, shift == 0 || left == 0 ? left : 2);
    asked_half = shift != 0 && !asked_half;
    if (asked_half || ++asked_of < in.size) return;
    asked_of = 0;
    asked += 2 * threads;
  };
  const auto take = [&](uint32_t r, dev::Vec16(&v)[2]) {
    ahead.Take(v);
    ask();
    const uint32_t shift = shift_of(r);
    if (shift == 0) return;
    dev::Vec16 other[2];
    ahead.Take(other);
    ask();
    v[0] = dev::Between(v[0], v[1], shift);
    v[1] = dev::Between(other[0], other[1], shift);
  };
  SL_ROLLED
  for (uint32_t turn = 0; turn < dev::Ahead::kDepth; ++turn) ask();
  SL_ROLLED
  for (uint32_t first = block.thread(); first < total; first += 2 * threads) {
    dev::Accumulator<F, kReduction, kVectorBytes> sums[2];
    dev::Vec16 v[2];
    take(0, v);
    SL_UNROLL
    for (uint32_t k = 0; k < 2; ++k) sums[k].Start(v[k]);
    SL_ROLLED
    for (uint32_t r = 1; r < in.size; ++r) {
      take(r, v);
      SL_UNROLL
      for (uint32_t k = 0; k < 2; ++k) sums[k].Add(v[k]);
    }
    SL_UNROLL
    for (uint32_t k = 0; k < 2; ++k) {
      const uint32_t i = first + k * threads;
      if (i < total) in.KeepUnlike(vectors.first + uint64_t{i} * kVectorBytes, sums[k].Finish(in.average_over));
    }
  }
}

// The elements before and behind them.
template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceElements(const dev::Block& block, const In& in, const Vectors& vectors) {
  using A = dev::Arithmetic<F, kReduction>;
  using Lane = typename F::Lane;
  constexpr uint32_t kLaneBytes = sizeof(Lane);
  const uint64_t total = in.bytes - vectors.bytes();
  for (uint64_t i = block.thread() * kLaneBytes; i < total; i += block.threads() * kLaneBytes) {
    const uint64_t at = i < vectors.first ? i : i + vectors.bytes();
    auto sum = A::Take(dev::LoadElement<Lane>(in.Of(0) + at));
    for (uint32_t r = 1; r < in.size; ++r) sum = A::Combine(sum, A::Take(dev::LoadElement<Lane>(in.Of(r) + at)));
    in.KeepElement(at, A::Finish(sum, in.average_over));
  }
}

template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceBy(const dev::Block& block, const In& in) {
  const Vectors vectors = in.Cut();
  if (vectors.shifted || in.KeepsParts()) {
    ReduceShifted<F, kReduction>(block, in, vectors);
  } else {
    ReduceVectors<F, kReduction>(block, in, vectors);
  }
  ReduceElements<F, kReduction>(block, in, vectors);
}

template <typename F, typename In>
SL_HD void Reduce(const dev::Block& block, const In& in, sl_reduction_t reduction) {
  switch (reduction) {
    case SL_PROD:
      return ReduceBy<F, SL_PROD>(block, in);
    case SL_MAX:
      return ReduceBy<F, SL_MAX>(block, in);
    case SL_MIN:
      return ReduceBy<F, SL_MIN>(block, in);
    default:
      return ReduceBy<F, SL_SUM>(block, in);
  }
}

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
// size: moving and reducing share how vectors are read and how many are in flight.
//
// Moving and reducing ranges of bytes by all threads of a block, 16 bytes a load, with many loads in flight. Where an
// address of the user is not aligned to 16 bytes, vectors are put together from pieces.
#pragma once

#include "sdk/device/accumulator.h"
#include "sdk/device/ahead.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

constexpr uint32_t kVectorBytes = sizeof(dev::Vec16);

// How a vector is read. Whole: 16 aligned bytes, kUnroll of them in flight; Part: the first `valid` bytes at any
// address.
struct FromUser {
  static constexpr uint32_t kUnroll = 8;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::LoadOwn<16>(from); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t valid) const { return dev::LoadAny<16>(from, valid); }
};
template <typename F>
struct FromUserScaled {
  static constexpr uint32_t kUnroll = 2;
  uint64_t scalar;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::Scaled<F>(dev::LoadOwn<16>(from), scalar); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t valid) const {
    return dev::Scaled<F>(dev::LoadAny<16>(from, valid), scalar);
  }
};
// Slots are aligned and hold whole vectors.
struct FromPeer {
  static constexpr uint32_t kUnroll = 8;
  SL_HD dev::Vec16 Whole(const uint8_t* from) const { return dev::LoadPeer(from); }
  SL_HD dev::Vec16 Part(const uint8_t* from, uint32_t /*valid*/) const { return dev::LoadPeer(from); }
};

struct Range {
  const uint8_t* from;
  uint8_t* to;
  uint32_t bytes;
};

// The whole vectors of one range.
template <typename Load>
SL_HD void MoveWhole(const dev::Block& block, const Load& load, const Range& range) {
  const uint32_t total = range.bytes / kVectorBytes;
  const uint32_t threads = block.threads();
  for (uint32_t first = block.thread(); first < total; first += Load::kUnroll * threads) {
    dev::Vec16 v[Load::kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < Load::kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i < total) v[j] = load.Whole(range.from + i * kVectorBytes);
    }
    SL_UNROLL
    for (uint32_t j = 0; j < Load::kUnroll; ++j) {
      const uint32_t i = first + j * threads;
      if (i < total) dev::Store(range.to + i * kVectorBytes, v[j]);
    }
  }
}

// The whole vectors of several short ranges, all in flight together.
template <typename Load, typename RangeAt>
SL_HD void MoveWholeTogether(const dev::Block& block, uint32_t count, uint32_t longest, const Load& load,
                             const RangeAt& range) {
  constexpr uint32_t kUnroll = Load::kUnroll;
  const uint32_t whole = longest / kVectorBytes;
  const uint32_t total = count * whole;
  for (uint32_t first = block.thread(); first < total; first += kUnroll * block.threads()) {
    dev::Vec16 v[kUnroll];
    uint8_t* to[kUnroll];
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      const uint32_t i = first + j * block.threads();
      to[j] = nullptr;
      if (i >= total) continue;
      const Range one = range(i / whole);
      const uint32_t at = i % whole * kVectorBytes;
      if (at + kVectorBytes > one.bytes) continue;
      v[j] = load.Whole(one.from + at);
      to[j] = one.to + at;
    }
    SL_UNROLL
    for (uint32_t j = 0; j < kUnroll; ++j) {
      if (to[j] != nullptr) dev::Store(to[j], v[j]);
    }
  }
}

// Moves range(0) … range(count - 1), of at most `longest` bytes each. `aligned`: all their user's addresses are.
template <typename Load, typename RangeAt>
SL_HD void MoveRanges(const dev::Block& block, uint32_t count, uint32_t longest, bool aligned, const Load& load,
                      const RangeAt& range) {
  // Where a range keeps enough loads of every thread in flight, finding one's place in it costs next to nothing.
  const bool is_long = count == 1 || longest >= 4 * kVectorBytes * block.threads();
  if (aligned && is_long) {
    for (uint32_t i = 0; i < count; ++i) MoveWhole(block, load, range(i));
  } else if (aligned) {
    MoveWholeTogether(block, count, longest, load, range);
  }
  // What remains: of aligned ranges the end, of others all.
  const uint32_t parts = aligned ? 1 : (longest + kVectorBytes - 1) / kVectorBytes;
  for (uint32_t i = block.thread(); i < count * parts; i += block.threads()) {
    const Range one = range(i / parts);
    const uint32_t at = (aligned ? one.bytes / kVectorBytes : i % parts) * kVectorBytes;
    if (at >= one.bytes) continue;
    dev::StoreAny(one.to + at, load.Part(one.from + at, one.bytes - at), one.bytes - at);
  }
}

// From a caller's buffer to another one.
SL_HD void MoveLong(const dev::Block& block, const uint8_t* from, uint8_t* to, uint64_t bytes) {
  constexpr uint64_t kMost = 1 << 30;  // of a range
  const bool aligned = dev::IsAligned(from, kVectorBytes) && dev::IsAligned(to, kVectorBytes);
  for (uint64_t at = 0; at < bytes; at += kMost) {
    const auto length = static_cast<uint32_t>(bytes - at < kMost ? bytes - at : kMost);
    const Range range{from + at, to + at, length};
    MoveRanges(block, 1, length, aligned, FromUser{}, [&](uint32_t) { return range; });
  }
}

// What is reduced: vectors and elements of all ranks, and where their reduction goes. The staged pieces of a round.
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

  SL_HD bool aligned() const {
    return dev::IsAligned(own, kVectorBytes) && dev::IsAligned(to, kVectorBytes) && dev::IsAligned(kept, kVectorBytes);
  }
  SL_HD const uint8_t* From(uint32_t r, uint32_t i) const {
    return (r == rank ? own : staged + r * stride) + i * kVectorBytes;
  }
  SL_HD void Keep(uint32_t i, const dev::Vec16& result) const {
    dev::Store(to + i * kVectorBytes, result);
    if (kept != nullptr) dev::Store(kept + i * kVectorBytes, result);
  }
  template <typename Lane>
  SL_HD Lane LoadElement(uint32_t r, uint32_t at) const {
    return dev::LoadElement<Lane>((r == rank ? own : staged + r * stride) + at);
  }
  template <typename Lane>
  SL_HD void KeepElement(uint32_t at, Lane result) const {
    dev::StoreElement(to + at, result);
    if (kept != nullptr) dev::StoreElement(kept + at, result);
  }
};

// Whole vectors, at several places abreast. Those of one rank after the other are asked for well ahead of their turn,
// so that one loop serves all numbers of ranks.
template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceVectors(const dev::Block& block, const In& in) {
  constexpr uint32_t kAbreast = dev::Ahead::kAbreast;
  const uint32_t threads = block.threads();
  const auto total = static_cast<uint32_t>(in.bytes / kVectorBytes);
  dev::Ahead ahead;
  uint32_t asked = block.thread();
  uint32_t asked_of = 0;
  const auto ask = [&] {
    ahead.Ask(in.From(asked_of, asked), threads, asked < total ? total - asked : 0);
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
      if (i < total) in.Keep(i, sums[k].Finish(in.average_over));
    }
  }
}

// Single elements from byte `first` on, at any address.
template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceElements(const dev::Block& block, const In& in, decltype(In::bytes) first) {
  using A = dev::Arithmetic<F, kReduction>;
  using Lane = typename F::Lane;
  constexpr uint32_t kLaneBytes = sizeof(Lane);
  const uint32_t step = block.threads() * kLaneBytes;
  for (auto at = first + block.thread() * kLaneBytes; at < in.bytes; at += step) {
    auto sum = A::Take(in.template LoadElement<Lane>(0, at));
    for (uint32_t r = 1; r < in.size; ++r) sum = A::Combine(sum, A::Take(in.template LoadElement<Lane>(r, at)));
    in.KeepElement(at, A::Finish(sum, in.average_over));
  }
}

template <typename F, sl_reduction_t kReduction, typename In>
SL_HD void ReduceBy(const dev::Block& block, const In& in) {
  const bool aligned = in.aligned();
  if (aligned) ReduceVectors<F, kReduction>(block, in);
  ReduceElements<F, kReduction>(block, in, aligned ? in.bytes / kVectorBytes * kVectorBytes : 0);
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

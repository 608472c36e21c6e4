// SPDX-License-Identifier: Apache-2.0
// The loop shared by all reduction kernels, compiled once per instruction set: include it only from a source that
// foreach_target.h re-includes. size: one loop and its cases; cut in two, each half would be compiled without the
// other.
//
// An operation `Op` tells the loop
//   Lane          the type of an element in memory
//   dm, DM        the tag of a memory vector, and its type
//   kCopiesOne    whether a single source is simply copied
//   kPairs        whether the case of two sources gets a loop of its own
//   Decode(v, s)  a memory vector of source s to an accumulator, of any type
//   Combine(a, b), Encode(a)
#if defined(STARLING_MODULES_DEVICE_HOST_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_MODULES_DEVICE_HOST_REDUCE_INL_H_
#undef STARLING_MODULES_DEVICE_HOST_REDUCE_INL_H_
#else
#define STARLING_MODULES_DEVICE_HOST_REDUCE_INL_H_
#endif

#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "modules/device-host/copy.h"
#include "sdk/float_mode.h"
#include "sl_base.h"
#include "sl_device.h"

HWY_BEFORE_NAMESPACE();
namespace sl::device_host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct Buffers {
  uint8_t* dst;
  uint8_t* dst2;  // may be null
  const void* const* srcs;
  uint32_t n_srcs;
  bool stream;  // whether dst is stored past the caches

  HWY_INLINE const uint8_t* Source(uint32_t s) const { return static_cast<const uint8_t*>(srcs[s]); }
};

// Copies fewer bytes than a vector of kVectorBytes has. The pieces overlap, which costs less than a loop over bytes.
template <size_t kVectorBytes>
HWY_INLINE void CopyFew(uint8_t* to, const uint8_t* from, size_t bytes) {
  static_assert(kVectorBytes <= 32);
  if (kVectorBytes > 16 && bytes >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (kVectorBytes > 8 && bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (kVectorBytes > 4 && bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

// How a vector reaches memory: whole, or its first lanes only.
template <class DM>
struct Whole {
  using Lane = hn::TFromD<DM>;
#if HWY_TARGET == HWY_SCALAR
  // Highway's own dereference a pointer, which must not be misaligned.
  HWY_INLINE hn::Vec<DM> Load(const uint8_t* from) const {
    Lane lane;
    std::memcpy(&lane, from, sizeof(lane));
    return hn::Set(DM(), lane);
  }
  HWY_INLINE void Store(hn::Vec<DM> v, uint8_t* to) const {
    const Lane lane = hn::GetLane(v);
    std::memcpy(to, &lane, sizeof(lane));
  }
#else
  HWY_INLINE hn::Vec<DM> Load(const uint8_t* from) const {
    return hn::LoadU(DM(), reinterpret_cast<const Lane*>(from));
  }
  HWY_INLINE void Store(hn::Vec<DM> v, uint8_t* to) const { hn::StoreU(v, DM(), reinterpret_cast<Lane*>(to)); }
#endif
  // Past the caches; `to` is aligned to the vector. Highway streams 16 bytes even of a vector that is shorter.
  HWY_INLINE void Stream(hn::Vec<DM> v, uint8_t* to) const {
    if constexpr (hn::MaxLanes(DM()) * sizeof(Lane) >= 16) {
      hn::Stream(v, DM(), reinterpret_cast<Lane*>(to));
    } else {
      Store(v, to);
    }
  }
};

template <class DM>
struct Part {
  using Lane = hn::TFromD<DM>;
  size_t lanes;  // fewer than the vector has

  // A masked load touches only its lanes. AVX2 has none for narrow lanes, and its masked store is slow on some CPUs.
  static constexpr bool kMasks = HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_AVX2 && sizeof(Lane) >= 4);

  HWY_INLINE hn::Vec<DM> Load(const uint8_t* from) const {
    if constexpr (kMasks) {
      return hn::MaskedLoad(hn::FirstN(DM(), lanes), DM(), reinterpret_cast<const Lane*>(from));
    } else {
      HWY_ALIGN Lane buffer[hn::MaxLanes(DM())] = {};
      CopyFew<sizeof(buffer)>(reinterpret_cast<uint8_t*>(buffer), from, lanes * sizeof(Lane));
      return hn::Load(DM(), buffer);
    }
  }
  HWY_INLINE void Store(hn::Vec<DM> v, uint8_t* to) const {
    if constexpr (HWY_TARGET == HWY_AVX3) {
      hn::BlendedStore(v, hn::FirstN(DM(), lanes), DM(), reinterpret_cast<Lane*>(to));
    } else {
      HWY_ALIGN Lane buffer[hn::MaxLanes(DM())];
      hn::Store(v, DM(), buffer);
      CopyFew<sizeof(buffer)>(to, reinterpret_cast<const uint8_t*>(buffer), lanes * sizeof(Lane));
    }
  }
};

// One vector at byte `offset`, any number of sources.
template <class Op, class Access>
HWY_INLINE void ReduceOne(const Op& op, const Buffers& b, size_t offset, const Access& access) {
  auto acc = op.Decode(access.Load(b.Source(0) + offset), 0);
  for (uint32_t s = 1; s < b.n_srcs; ++s) {
    acc = op.Combine(acc, op.Decode(access.Load(b.Source(s) + offset), s));
  }
  const auto result = op.Encode(acc);
  access.Store(result, b.dst + offset);
  if (b.dst2 != nullptr) access.Store(result, b.dst2 + offset);
}

// Stores four neighbouring vectors. All loads of a block precede its stores, which makes dst == source safe.
template <class Op, class V>
HWY_INLINE void StoreFour(const Op& op, const Buffers& b, size_t offset, V a0, V a1, V a2, V a3) {
  const Whole<typename Op::DM> whole;
  const size_t step = hn::Lanes(op.dm) * sizeof(typename Op::Lane);
  const auto r0 = op.Encode(a0);
  const auto r1 = op.Encode(a1);
  const auto r2 = op.Encode(a2);
  const auto r3 = op.Encode(a3);
  uint8_t* to = b.dst + offset;
  if (b.stream) {
    whole.Stream(r0, to);
    whole.Stream(r1, to + step);
    whole.Stream(r2, to + 2 * step);
    whole.Stream(r3, to + 3 * step);
  } else {
    whole.Store(r0, to);
    whole.Store(r1, to + step);
    whole.Store(r2, to + 2 * step);
    whole.Store(r3, to + 3 * step);
  }
  if (b.dst2 == nullptr) return;
  to = b.dst2 + offset;
  whole.Store(r0, to);
  whole.Store(r1, to + step);
  whole.Store(r2, to + 2 * step);
  whole.Store(r3, to + 3 * step);
}

// Four vectors a turn from `offset` on, accumulators in registers over all sources. Returns where it stopped, less than
// four vectors before `bytes`.
template <class Op>
HWY_INLINE size_t ReduceMany(const Op& op, const Buffers& b, size_t offset, size_t bytes) {
  const Whole<typename Op::DM> whole;
  const size_t step = hn::Lanes(op.dm) * sizeof(typename Op::Lane);
  for (; offset + 4 * step <= bytes; offset += 4 * step) {
    const uint8_t* p = b.Source(0) + offset;
    auto a0 = op.Decode(whole.Load(p), 0);
    auto a1 = op.Decode(whole.Load(p + step), 0);
    auto a2 = op.Decode(whole.Load(p + 2 * step), 0);
    auto a3 = op.Decode(whole.Load(p + 3 * step), 0);
    for (uint32_t s = 1; s < b.n_srcs; ++s) {
      p = b.Source(s) + offset;
      a0 = op.Combine(a0, op.Decode(whole.Load(p), s));
      a1 = op.Combine(a1, op.Decode(whole.Load(p + step), s));
      a2 = op.Combine(a2, op.Decode(whole.Load(p + 2 * step), s));
      a3 = op.Combine(a3, op.Decode(whole.Load(p + 3 * step), s));
    }
    StoreFour(op, b, offset, a0, a1, a2, a3);
  }
  return offset;
}

// The same for the two sources of a ring step.
template <class Op>
HWY_INLINE size_t ReducePair(const Op& op, const Buffers& b, size_t offset, size_t bytes) {
  const Whole<typename Op::DM> whole;
  const size_t step = hn::Lanes(op.dm) * sizeof(typename Op::Lane);
  const uint8_t* const p0 = b.Source(0);
  const uint8_t* const p1 = b.Source(1);
  const auto pair = [&](size_t at) HWY_ATTR {
    return op.Combine(op.Decode(whole.Load(p0 + at), 0), op.Decode(whole.Load(p1 + at), 1));
  };
  for (; offset + 4 * step <= bytes; offset += 4 * step) {
    const auto a0 = pair(offset);
    const auto a1 = pair(offset + step);
    const auto a2 = pair(offset + 2 * step);
    const auto a3 = pair(offset + 3 * step);
    StoreFour(op, b, offset, a0, a1, a2, a3);
  }
  return offset;
}

// The vectors at `offset` and after, up to `bytes`.
template <class Op>
HWY_INLINE void ReduceRest(const Op& op, const Buffers& b, size_t offset, size_t bytes) {
  using Lane = typename Op::Lane;
  using DM = typename Op::DM;
  const size_t step = hn::Lanes(op.dm) * sizeof(Lane);
  for (; offset + step <= bytes; offset += step) ReduceOne(op, b, offset, Whole<DM>());
  if constexpr (hn::MaxLanes(DM()) > 1) {
    if (offset < bytes) ReduceOne(op, b, offset, Part<DM>{(bytes - offset) / sizeof(Lane)});
  }
}

// Reduces the few elements before dst is aligned to a vector and returns their bytes. When dst is not even aligned to
// an element, gives up streaming.
template <class Op>
HWY_INLINE size_t AlignForStream(const Op& op, Buffers& b, size_t bytes) {
  const size_t step = hn::Lanes(op.dm) * sizeof(typename Op::Lane);
  const size_t head = (step - reinterpret_cast<uintptr_t>(b.dst) % step) % step;
  b.stream = head % sizeof(typename Op::Lane) == 0 && head < bytes;
  if (!b.stream) return 0;
  ReduceRest(op, b, 0, head);
  return head;
}

template <class Op>
void Run(const Op& op, Buffers b, size_t count) {
  const size_t bytes = count * sizeof(typename Op::Lane);
  if (Op::kCopiesOne && b.n_srcs == 1) {
    Copy(b.dst, b.Source(0), bytes);
    if (b.dst2 != nullptr) Copy(b.dst2, b.Source(0), bytes);
    return;
  }
  const size_t head = HWY_UNLIKELY(b.stream) ? AlignForStream(op, b, bytes) : 0;
  const size_t done = Op::kPairs && b.n_srcs == 2 ? ReducePair(op, b, head, bytes) : ReduceMany(op, b, head, bytes);
  // Streamed stores are not ordered with the caller's later release store unless fenced.
  if (HWY_UNLIKELY(b.stream)) hwy::FlushStream();
  ReduceRest(op, b, done, bytes);
}

HWY_INLINE Buffers MakeBuffers(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs,
                               const sl_reduce_scale_t* scale) {
  const bool stream = scale != nullptr && (scale->flags & SL_REDUCE_STREAM_STORES) != 0;
  return {static_cast<uint8_t*>(dst), static_cast<uint8_t*>(dst2), srcs, n_srcs, stream};
}

// The kernel of an operation that needs no scale.
template <class Op>
void Kernel(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
            const sl_reduce_scale_t* scale) {
  Run(Op(), MakeBuffers(dst, dst2, srcs, n_srcs, scale), count);
}

// A kernel that computes on floats, in the one mode that all ranks compute in.
template <sl_reduce_fn kKernel>
void InFloatMode(void* dst, void* dst2, const void* const* srcs, uint32_t n_srcs, size_t count,
                 const sl_reduce_scale_t* scale) {
  const FloatMode mode;
  kKernel(dst, dst2, srcs, n_srcs, count, scale);
}

// Which sources a scalar multiplies: bit i of the mask for source i, bit 63 for all later ones.
HWY_INLINE bool InMask(uint64_t mask, uint32_t source) { return ((mask >> (source < 63 ? source : 63)) & 1) != 0; }

// Whether the mask names any of the first n sources.
HWY_INLINE bool AnyInMask(uint64_t mask, uint32_t n_srcs) {
  return (n_srcs < 64 ? mask & ((uint64_t{1} << n_srcs) - 1) : mask) != 0;
}

}  // namespace sl::device_host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // STARLING_MODULES_DEVICE_HOST_REDUCE_INL_H_

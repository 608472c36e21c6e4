// SPDX-License-Identifier: Apache-2.0
//
// One reduction of several sources, as sl_reduce_fn does it, for GPUs and for the host that tests it. A thread takes
// vectors of 16 bytes, as many as there are threads apart, and reads all sources of one before it writes the result, so
// that the result may lie over a source.
#pragma once

#include "sdk/device/accumulator.h"

namespace sl::device_cuda {

inline constexpr uint32_t kMostSources = 240;  // as many as a launch of 4,096 bytes has room for, and some

struct ReduceArgs {
  uint8_t* dst;
  uint64_t bytes;
  uint64_t factor_mask;  // bit min(s, 63): source s is multiplied by the factor
  uint64_t factor_bits;  // in the element's format; 0 with `is_share`
  uint32_t source_count;
  uint32_t reduction;  // SL_SUM, SL_PROD, SL_MAX or SL_MIN
  uint32_t world;      // an average divides by it
  uint32_t is_share;   // the factor is 1 / world
  uint32_t divides;    // the complete sum is divided by `world`
  uint32_t reserved;
  const uint8_t* srcs[kMostSources];
};
static_assert(sizeof(ReduceArgs) <= 4096);

template <typename F, sl_reduction_t kReduction>
class Reducer {
 public:
  SL_HD explicit Reducer(const ReduceArgs& args) : args_(args), factor_(FactorOf(args)) {}

  // The vectors thread, thread + threads, …
  SL_HD void Run(uint64_t thread, uint64_t threads) const {
    for (uint64_t at = thread * kBytes; at < args_.bytes; at += threads * kBytes) {
      const uint64_t left = args_.bytes - at;
      const uint32_t valid = left < kBytes ? static_cast<uint32_t>(left) : kBytes;
      dev::StoreAny<kBytes>(args_.dst + at, Reduce(at, valid), valid);
    }
  }

 private:
  static constexpr uint32_t kBytes = 16;
  static constexpr uint32_t kLanes = dev::kLanesOf<F, kBytes>;
  using A = dev::Arithmetic<F, kReduction>;
  using Lane = typename F::Lane;
  using Vec = dev::Vector<kBytes>;

  // Extrema multiply nothing.
  SL_HD static typename F::Acc FactorOf(const ReduceArgs& args) {
    if (args.is_share != 0) return ShareOf(args.world);
    dev::Vector<8> bits{};
    bits.word[0] = static_cast<uint32_t>(args.factor_bits);
    bits.word[1] = static_cast<uint32_t>(args.factor_bits >> 32);
    return F::Decode(dev::GetLane<Lane>(bits, 0));
  }
  SL_HD static typename F::Acc ShareOf(uint32_t world) {
    return static_cast<typename F::Acc>(1) / static_cast<typename F::Acc>(world);
  }

  SL_HD typename A::Value Take(Lane lane, bool is_multiplied) const {
    if constexpr (kReduction == SL_SUM) {
      if (is_multiplied) return F::Mul(A::Take(lane), factor_);
    }
    return A::Take(lane);
  }

  SL_HD Vec Reduce(uint64_t at, uint32_t valid) const {
    typename A::Value values[kLanes] = {};
    for (uint32_t source = 0; source < args_.source_count; ++source) {
      const Vec v = dev::LoadAny<kBytes>(args_.srcs[source] + at, valid);
      const bool is_multiplied = (args_.factor_mask >> (source < 63 ? source : 63) & 1) != 0;
      SL_UNROLL
      for (uint32_t i = 0; i < kLanes; ++i) {
        const auto value = Take(dev::GetLane<Lane>(v, i), is_multiplied);
        values[i] = source == 0 ? value : A::Combine(values[i], value);
      }
    }
    Vec result{};
    SL_UNROLL
    for (uint32_t i = 0; i < kLanes; ++i) {
      dev::PutLane<Lane>(&result, i, A::Finish(values[i], args_.divides != 0 ? args_.world : 0));
    }
    return result;
  }

  const ReduceArgs& args_;
  const typename F::Acc factor_;
};

// All reductions of one format.
template <typename F>
SL_HD void RunReduction(const ReduceArgs& args, uint64_t thread, uint64_t threads) {
  switch (args.reduction) {
    case SL_PROD:
      return Reducer<F, SL_PROD>(args).Run(thread, threads);
    case SL_MAX:
      return Reducer<F, SL_MAX>(args).Run(thread, threads);
    case SL_MIN:
      return Reducer<F, SL_MIN>(args).Run(thread, threads);
    default:
      return Reducer<F, SL_SUM>(args).Run(thread, threads);
  }
}

// X(type, name), in the order of the types' numbers.
#define SL_REDUCE_KERNELS(X)             \
  X(SL_INT8, sl_reduce_int8)             \
  X(SL_UINT8, sl_reduce_uint8)           \
  X(SL_INT32, sl_reduce_int32)           \
  X(SL_UINT32, sl_reduce_uint32)         \
  X(SL_INT64, sl_reduce_int64)           \
  X(SL_UINT64, sl_reduce_uint64)         \
  X(SL_FLOAT16, sl_reduce_float16)       \
  X(SL_FLOAT32, sl_reduce_float32)       \
  X(SL_FLOAT64, sl_reduce_float64)       \
  X(SL_BFLOAT16, sl_reduce_bfloat16)     \
  X(SL_FLOAT8E4M3, sl_reduce_float8e4m3) \
  X(SL_FLOAT8E5M2, sl_reduce_float8e5m2)

}  // namespace sl::device_cuda

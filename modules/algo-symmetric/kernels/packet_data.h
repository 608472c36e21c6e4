// SPDX-License-Identifier: Apache-2.0
//
// The data of packets: from and to callers' buffers, and the reduction of what came.
#pragma once

#include "modules/algo-symmetric/kernels/slice.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

// Where a packet's data is no whole one at an aligned address: amid its callers' code, or out of their way, for a
// kernel of less code is sooner done; or so, unless it is a message of some words and no more.
enum class Ends { kInline, kApart, kApartUnlessWords };

template <typename Data>
SL_APART SL_HD Data LoadEndApart(const uint8_t* from, uint32_t valid) {
  return dev::LoadAny<sizeof(Data)>(from, valid);
}
template <typename Data>
SL_APART SL_HD void StoreEndApart(uint8_t* to, Data data, uint32_t valid) {  // by value: callers keep it in registers
  dev::StoreAny(to, data, valid);
}
template <Ends kEnds, typename Data>
SL_HD Data LoadEnd(const uint8_t* from, uint32_t valid) {
  if constexpr (kEnds == Ends::kInline) return dev::LoadAny<sizeof(Data)>(from, valid);
  return LoadEndApart<Data>(from, valid);
}
template <Ends kEnds, typename Data>
SL_HD void StoreEnd(uint8_t* to, const Data& data, uint32_t valid) {
  if constexpr (kEnds == Ends::kInline) return dev::StoreAny(to, data, valid);
  StoreEndApart(to, data, valid);
}
template <Ends kEnds, typename Data>
SL_HD bool IsInline(const uint8_t* address, uint32_t bytes) {
  return kEnds == Ends::kApartUnlessWords && bytes <= sizeof(Data) && dev::IsInWords(address, bytes);
}
template <typename Data>
SL_HD void StorePacketData(uint8_t* to, const Data& data, uint32_t valid) {
  if (valid >= sizeof(Data) && dev::IsAligned(to, sizeof(Data))) return dev::Store<sizeof(Data)>(to, data);
  StoreEndApart(to, data, valid);
}

// The packets of a unit, of which `bytes` begin at `from`. Whole ones at an aligned address are under way together
// before the first has come.
template <Ends kEnds, typename Data, typename Unit, uint32_t kUnit>
SL_HD void LoadUnit(const uint8_t* from, uint32_t bytes, const Unit& unit, Data (&data)[kUnit]) {
  constexpr uint32_t kPacket = sizeof(Data);
  constexpr uint32_t kStep = Unit::kWarp * kPacket;
  const uint32_t at = unit.First() * kPacket;
  const uint8_t* first = from + at;
  const bool aligned = dev::IsAligned(from, kPacket);
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    if (aligned && at + k * kStep + kPacket <= bytes) data[k] = dev::LoadOwn<kPacket>(first + k * kStep);
  }
  if (aligned && (bytes % kPacket == 0 || at + (kUnit - 1) * kStep + kPacket <= bytes)) return;
  if (IsInline<kEnds, Data>(from, bytes)) {
    if (at == 0) data[0] = dev::LoadWords<kPacket>(from, bytes);
    return;
  }
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    const uint32_t place = at + k * kStep;
    if (place < bytes && (!aligned || place + kPacket > bytes)) {
      data[k] = LoadEnd<kEnds, Data>(first + k * kStep, bytes - place);
    }
  }
}

// The reverse.
template <Ends kEnds, typename Data, typename Unit, uint32_t kUnit>
SL_HD void StoreUnit(uint8_t* to, uint32_t bytes, const Unit& unit, const Data (&data)[kUnit]) {
  constexpr uint32_t kPacket = sizeof(Data);
  constexpr uint32_t kStep = Unit::kWarp * kPacket;
  const uint32_t at = unit.First() * kPacket;
  uint8_t* first = to + at;
  const bool aligned = dev::IsAligned(to, kPacket);
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    if (aligned && at + k * kStep + kPacket <= bytes) dev::Store(first + k * kStep, data[k]);
  }
  if (aligned && (bytes % kPacket == 0 || at + (kUnit - 1) * kStep + kPacket <= bytes)) return;
  if (IsInline<kEnds, Data>(to, bytes)) {
    if (at == 0) dev::StoreWords<kPacket>(to, data[0], bytes);
    return;
  }
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    const uint32_t place = at + k * kStep;
    if (place < bytes && (!aligned || place + kPacket > bytes)) {
      StoreEnd<kEnds>(first + k * kStep, data[k], bytes - place);
    }
  }
}

template <typename F, typename Data, uint32_t kUnit>
SL_HD void ScaleUnit(uint64_t scalar, Data (&data)[kUnit]) {
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) data[k] = dev::Scaled<F>(data[k], scalar);
}

// Units of every rank that meet in shared memory at a time.
template <typename Format>
SL_HD uint32_t UnitsThatFit(uint32_t ranks) {
  return kSharedBytes / sizeof(typename Format::Data) / Format::kUnit / ranks;
}

// Calls by<kReduction>(average_over). Sums come before all others, and averages apart from them: a jump by a table, or
// a reciprocal that nobody needs, takes longer than what is done then.
template <typename By>
SL_HD void ByReduction(sl_reduction_t reduction, uint32_t average_over, const By& by) {
  const bool is_sum = reduction != SL_PROD && reduction != SL_MAX && reduction != SL_MIN;
  if (is_sum && average_over == 0) return by.template operator()<SL_SUM>(0);
  if (is_sum) return by.template operator()<SL_SUM>(average_over);
  if (reduction == SL_PROD) return by.template operator()<SL_PROD>(0);
  if (reduction == SL_MAX) return by.template operator()<SL_MAX>(0);
  by.template operator()<SL_MIN>(0);
}

// Reduces packet i of every rank, shared[rank * count + i], in rank order, and hands the result to store(i, packet).
template <typename F, sl_reduction_t kReduction, typename Data, typename StoreSum>
SL_HD void ReducePacketsBy(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                           uint32_t average_over, const StoreSum& store) {
  constexpr uint32_t kAbreast = 7;  // besides the first; loaded before the first of them is needed
  for (uint32_t i = block.thread(); i < count; i += block.threads()) {
    dev::Accumulator<F, kReduction, sizeof(Data)> sum;
    sum.Start(shared[i]);
    for (uint32_t first = 1; first < ranks; first += kAbreast) {
      Data of_rank[kAbreast];
      SL_UNROLL
      for (uint32_t r = 0; r < kAbreast; ++r) {
        if (first + r < ranks) of_rank[r] = shared[(first + r) * count + i];
      }
      SL_UNROLL
      for (uint32_t r = 0; r < kAbreast; ++r) {
        if (first + r < ranks) sum.Add(of_rank[r]);
      }
    }
    store(i, sum.Finish(average_over));
  }
}

// Two ranks' packets of a unit: `first` becomes their reduction.
template <typename F, sl_reduction_t kReduction, typename Data, uint32_t kUnit>
SL_HD void ReducePairBy(Data (&first)[kUnit], const Data (&second)[kUnit], uint32_t average_over) {
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    dev::Accumulator<F, kReduction, sizeof(Data)> sum;
    sum.Start(first[k]);
    sum.Add(second[k]);
    first[k] = sum.Finish(average_over);
  }
}

template <typename F, typename Data, uint32_t kUnit>
SL_HD void ReducePair(Data (&first)[kUnit], const Data (&second)[kUnit], sl_reduction_t reduction,
                      uint32_t average_over) {
  ByReduction(reduction, average_over,
              [&]<sl_reduction_t kReduction>(uint32_t over) { ReducePairBy<F, kReduction>(first, second, over); });
}

// Up to kRanks ranks' packets, in rank order: the first becomes their reduction.
template <typename F, sl_reduction_t kReduction, typename Data, uint32_t kRanks>
SL_HD void ReduceRanksBy(Data (&of_rank)[kRanks], uint32_t ranks, uint32_t average_over) {
  dev::Accumulator<F, kReduction, sizeof(Data)> sum;
  sum.Start(of_rank[0]);
  SL_UNROLL
  for (uint32_t r = 1; r < kRanks; ++r) {
    if (kRanks == 2 || r < ranks) sum.Add(of_rank[r]);
  }
  of_rank[0] = sum.Finish(average_over);
}

template <typename F, typename Data, uint32_t kRanks>
SL_HD void ReduceRanks(Data (&of_rank)[kRanks], uint32_t ranks, sl_reduction_t reduction, uint32_t average_over) {
  ByReduction(reduction, average_over,
              [&]<sl_reduction_t kReduction>(uint32_t over) { ReduceRanksBy<F, kReduction>(of_rank, ranks, over); });
}

template <typename F, typename Data, typename StoreSum>
SL_HD void ReducePackets(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                         sl_reduction_t reduction, uint32_t average_over, const StoreSum& store) {
  ByReduction(reduction, average_over, [&]<sl_reduction_t kReduction>(uint32_t over) {
    ReducePacketsBy<F, kReduction>(block, shared, ranks, count, over, store);
  });
}

}  // namespace sl::algo_symmetric::kernels

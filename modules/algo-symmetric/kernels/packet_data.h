// SPDX-License-Identifier: Apache-2.0
//
// The data of packets: from and to callers' buffers, and the reduction of what came.
#pragma once

#include "modules/algo-symmetric/kernels/slice.h"
#include "sdk/device/accumulator.h"
#include "sdk/device/block.h"

namespace sl::algo_symmetric::kernels {

// Where a packet's data is no whole one at an aligned address. Long ones out of the way of the loops; of short messages
// it may be the only one.
template <typename Data>
SL_APART SL_HD Data LoadLongPart(const uint8_t* from, uint32_t valid) {
  return dev::LoadAny<sizeof(Data)>(from, valid);
}
template <typename Data>
SL_APART SL_HD void StoreLongPart(uint8_t* to, Data data, uint32_t valid) {  // by value: callers keep it in registers
  dev::StoreAny(to, data, valid);
}
template <typename Data>
SL_HD Data LoadPart(const uint8_t* from, uint32_t valid) {
  if constexpr (sizeof(Data) == sizeof(dev::Vec8)) return dev::LoadAny<sizeof(Data)>(from, valid);
  return LoadLongPart<Data>(from, valid);
}
template <typename Data>
SL_HD void StorePart(uint8_t* to, const Data& data, uint32_t valid) {
  if constexpr (sizeof(Data) == sizeof(dev::Vec8)) return dev::StoreAny(to, data, valid);
  StoreLongPart(to, data, valid);
}
template <typename Data>
SL_HD void StorePacketData(uint8_t* to, const Data& data, uint32_t valid) {
  if (valid >= sizeof(Data) && dev::IsAligned(to, sizeof(Data))) return dev::Store<sizeof(Data)>(to, data);
  StorePart(to, data, valid);
}

// The packets of a unit, of which `bytes` begin at `from`. Whole ones at an aligned address are under way together
// before the first has come.
template <typename Data, typename Unit, uint32_t kUnit>
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
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    const uint32_t place = at + k * kStep;
    if (place < bytes && (!aligned || place + kPacket > bytes)) {
      data[k] = LoadPart<Data>(first + k * kStep, bytes - place);
    }
  }
}

// The reverse.
template <typename Data, typename Unit, uint32_t kUnit>
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
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    const uint32_t place = at + k * kStep;
    if (place < bytes && (!aligned || place + kPacket > bytes)) {
      StorePart(first + k * kStep, data[k], bytes - place);
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

// Reduces packet i of every rank, shared[rank * count + i], in rank order, and hands the result to store(i, packet).
template <typename F, sl_reduction_t kReduction, typename Data, typename StoreSum>
SL_HD void ReducePacketsBy(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                           uint32_t average_over, const StoreSum& store) {
  for (uint32_t i = block.thread(); i < count; i += block.threads()) {
    dev::Accumulator<F, kReduction, sizeof(Data)> sum;
    sum.Start(shared[i]);
    for (uint32_t r = 1; r < ranks; ++r) sum.Add(shared[r * count + i]);
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
  switch (reduction) {
    case SL_PROD:
      return ReducePairBy<F, SL_PROD>(first, second, average_over);
    case SL_MAX:
      return ReducePairBy<F, SL_MAX>(first, second, average_over);
    case SL_MIN:
      return ReducePairBy<F, SL_MIN>(first, second, average_over);
    default:
      return ReducePairBy<F, SL_SUM>(first, second, average_over);
  }
}

template <typename F, typename Data, typename StoreSum>
SL_HD void ReducePackets(const dev::Block& block, const Data* shared, uint32_t ranks, uint32_t count,
                         sl_reduction_t reduction, uint32_t average_over, const StoreSum& store) {
  switch (reduction) {
    case SL_PROD:
      return ReducePacketsBy<F, SL_PROD>(block, shared, ranks, count, average_over, store);
    case SL_MAX:
      return ReducePacketsBy<F, SL_MAX>(block, shared, ranks, count, average_over, store);
    case SL_MIN:
      return ReducePacketsBy<F, SL_MIN>(block, shared, ranks, count, average_over, store);
    default:
      return ReducePacketsBy<F, SL_SUM>(block, shared, ranks, count, average_over, store);
  }
}

}  // namespace sl::algo_symmetric::kernels

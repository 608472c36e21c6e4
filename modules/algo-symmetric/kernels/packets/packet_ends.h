// SPDX-License-Identifier: Apache-2.0
//
// The data of packets from and to callers' buffers, which begin and end anywhere.
#pragma once

#include "sdk/device/block.h"
#include "sdk/device/shifted.h"

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

template <typename Data, uint32_t kUnit>
struct UnitData {
  Data data[kUnit];
};
// The packets of a unit at an address that is not aligned. Each is put together from two vectors, all under way
// together; the first and the last, around which there may be nothing to load, from parts.
template <typename Data, typename Unit, uint32_t kUnit>
SL_APART SL_HD UnitData<Data, kUnit> LoadShiftedUnit(const uint8_t* from, uint32_t bytes, const Unit unit) {
  constexpr uint32_t kPacket = sizeof(Data);
  constexpr uint32_t kStep = Unit::kWarp * kPacket;
  const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from)) % kPacket;
  const uint32_t at = unit.First() * kPacket;
  const auto is_amid = [at, bytes](uint32_t k) {
    const uint32_t place = at + k * kStep;
    return place >= kPacket && place + 2 * kPacket <= bytes;
  };
  UnitData<Data, kUnit> out{};
  Data behind[kUnit] = {};
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    if (!is_amid(k)) continue;
    const uint8_t* first = from + at + k * kStep - shift;
    out.data[k] = dev::LoadOwn<kPacket>(first);
    behind[k] = dev::LoadOwn<kPacket>(first + kPacket);
  }
  SL_UNROLL
  for (uint32_t k = 0; k < kUnit; ++k) {
    const uint32_t place = at + k * kStep;
    if (is_amid(k)) {
      out.data[k] = dev::Between(out.data[k], behind[k], shift);
    } else if (place < bytes) {
      out.data[k] = dev::LoadAny<kPacket>(from + place, bytes - place);
    }
  }
  return out;
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
  if constexpr (kUnit > 1) {
    if (!aligned) {
      const auto loaded = LoadShiftedUnit<Data, Unit, kUnit>(from, bytes, unit);
      SL_UNROLL
      for (uint32_t k = 0; k < kUnit; ++k) data[k] = loaded.data[k];
      return;
    }
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

}  // namespace sl::algo_symmetric::kernels

// SPDX-License-Identifier: Apache-2.0
#include "kernel/loader/stubs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernel/events/last_error.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "sl_fault.h"
#include "sl_observer.h"
#include "sl_topology.h"
#include "sl_transport.h"

namespace sl::kernel {
namespace {

template <typename R, typename... Args>
R Unsupported(Args...) noexcept {
  if constexpr (std::is_same_v<R, sl_status_t>) {
    return SetLastError(SL_ERR_UNSUPPORTED, "this module does not offer this call");
  } else if constexpr (!std::is_void_v<R>) {
    return R{};
  }
}

// Becomes the stub of whatever slot it initialises.
struct AnyStub {
  template <typename R, typename... Args>
  using Slot = R (*)(Args...);
  template <typename R, typename... Args>
  constexpr operator Slot<R, Args...>() const {  // NOLINT(google-explicit-constructor)
    return &Unsupported<R, Args...>;
  }
};

constexpr uint32_t kHeaderBytes = 2 * sizeof(uint32_t);  // struct_size and reserved
constexpr uint32_t kSlotBytes = sizeof(void (*)());

template <typename Table, size_t... kSlots>
constexpr Table MakeStubs(std::index_sequence<kSlots...>) {
  return Table{sizeof(Table), 0, (static_cast<void>(kSlots), AnyStub())...};
}

// A table whose every slot is a stub; the number of slots follows from its size.
template <typename Table>
constexpr Table kStubs = MakeStubs<Table>(std::make_index_sequence<(sizeof(Table) - kHeaderBytes) / kSlotBytes>());

#define SL_MANDATORY(table, slot) \
  MandatorySlot { offsetof(table, slot), #slot }
constexpr MandatorySlot kDeviceMandatory[] = {SL_MANDATORY(sl_device_ops_t, open),
                                              SL_MANDATORY(sl_device_ops_t, close)};
constexpr MandatorySlot kTransportMandatory[] = {SL_MANDATORY(sl_transport_ops_t, open),
                                                 SL_MANDATORY(sl_transport_ops_t, close)};
constexpr MandatorySlot kAlgorithmMandatory[] = {SL_MANDATORY(sl_algorithm_ops_t, create),
                                                 SL_MANDATORY(sl_algorithm_ops_t, destroy),
                                                 SL_MANDATORY(sl_algorithm_ops_t, estimate)};
constexpr MandatorySlot kFaultMandatory[] = {SL_MANDATORY(sl_fault_ops_t, create),
                                             SL_MANDATORY(sl_fault_ops_t, destroy)};
constexpr MandatorySlot kObserverMandatory[] = {SL_MANDATORY(sl_observer_ops_t, create),
                                                SL_MANDATORY(sl_observer_ops_t, destroy)};
constexpr MandatorySlot kTopologyMandatory[] = {SL_MANDATORY(sl_topology_ops_t, create),
                                                SL_MANDATORY(sl_topology_ops_t, destroy)};
#undef SL_MANDATORY

enum class Life : uint8_t { kDraft, kStable };
enum class Served : uint8_t { kByMany, kByOne };
enum class Asked : uint8_t { kByKernel, kByNobodyYet };

template <typename Table>
constexpr InterfaceInfo Describe(const char* id, uint32_t revision, Life life, Served served,
                                 std::span<const MandatorySlot> mandatory, Asked asked = Asked::kByKernel) {
  return {id,
          revision,
          1,
          life == Life::kDraft,
          served == Served::kByOne,
          asked == Asked::kByKernel,
          &kStubs<Table>,
          sizeof(Table),
          mandatory};
}

constexpr InterfaceInfo kInterfaces[] = {
    Describe<sl_device_ops_t>(SL_DEVICE_ID, SL_DEVICE_REVISION, Life::kStable, Served::kByMany, kDeviceMandatory),
    Describe<sl_transport_ops_t>(SL_TRANSPORT_ID, SL_TRANSPORT_REVISION, Life::kStable, Served::kByMany,
                                 kTransportMandatory),
    Describe<sl_algorithm_ops_t>(SL_ALGORITHM_ID, SL_ALGORITHM_REVISION, Life::kStable, Served::kByMany,
                                 kAlgorithmMandatory),
    Describe<sl_fault_ops_t>(SL_FAULT_ID, SL_FAULT_REVISION, Life::kDraft, Served::kByOne, kFaultMandatory,
                             Asked::kByNobodyYet),
    Describe<sl_observer_ops_t>(SL_OBSERVER_ID, SL_OBSERVER_REVISION, Life::kDraft, Served::kByMany,
                                kObserverMandatory),
    Describe<sl_topology_ops_t>(SL_TOPOLOGY_ID, SL_TOPOLOGY_REVISION, Life::kDraft, Served::kByMany, kTopologyMandatory,
                                Asked::kByNobodyYet),
};

uint32_t TableBytes(const void* ops) {
  uint32_t bytes = 0;
  std::memcpy(&bytes, ops, sizeof(bytes));
  return bytes;
}

}  // namespace

std::span<const InterfaceInfo> KnownInterfaces() { return kInterfaces; }

const InterfaceInfo* FindInterface(std::string_view id) {
  for (const InterfaceInfo& interface : kInterfaces) {
    if (id == interface.id) return &interface;
  }
  return nullptr;
}

OverlaidTable OverlayTable(const InterfaceInfo& interface, const void* ops) {
  OverlaidTable table(interface.bytes / sizeof(uint64_t));
  std::memcpy(table.data(), interface.stubs, interface.bytes);
  const uint32_t offered = std::min(TableBytes(ops), interface.bytes);
  static_assert(kSlotBytes == sizeof(uint64_t), "slots are copied as words");
  for (uint32_t offset = kHeaderBytes; offset + kSlotBytes <= offered; offset += kSlotBytes) {
    uint64_t slot = 0;
    std::memcpy(&slot, static_cast<const char*>(ops) + offset, kSlotBytes);
    if (slot != 0) table[offset / kSlotBytes] = slot;
  }
  return table;
}

Status CheckTable(const InterfaceInfo& interface, const void* ops) {
  const uint32_t bytes = TableBytes(ops);
  if (bytes < kHeaderBytes + kSlotBytes || bytes % kSlotBytes != 0) {
    return Status(SL_ERR_UNSUPPORTED, fmt::format("its {} table is truncated: struct_size is {}, wanted {} or another "
                                                  "whole number of slots",
                                                  interface.id, bytes, interface.bytes));
  }
  for (const MandatorySlot& slot : interface.mandatory) {
    uint64_t value = 0;
    if (slot.offset + kSlotBytes <= bytes) {
      std::memcpy(&value, static_cast<const char*>(ops) + slot.offset, sizeof(value));
    }
    if (value == 0) {
      return Status(SL_ERR_UNSUPPORTED,
                    fmt::format("its {} table has no {}, which is mandatory", interface.id, slot.name));
    }
  }
  return Status();
}

}  // namespace sl::kernel

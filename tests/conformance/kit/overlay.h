// SPDX-License-Identifier: Apache-2.0
//
// A module's table as users see it: as long as today's header and without a NULL slot, whatever the module's own age.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "sl_base.h"

namespace sl::conform {

// Becomes the stub of whatever slot it initialises: SL_ERR_UNSUPPORTED, nothing, or NULL.
struct AnyStub {
  template <typename R, typename... Args>
  using Slot = R (*)(Args...);
  template <typename R, typename... Args>
  constexpr operator Slot<R, Args...>() const {  // NOLINT(google-explicit-constructor)
    return [](Args...) -> R {
      if constexpr (std::is_same_v<R, sl_status_t>) {
        return SL_ERR_UNSUPPORTED;
      } else if constexpr (!std::is_void_v<R>) {
        return R{};
      }
    };
  }
};

template <typename Ops>
constexpr size_t kFirstSlot = 2 * sizeof(uint32_t);  // after struct_size and reserved

// A table of stubs only: also what a module is bound to whose neighbour offers nothing.
template <typename Ops>
constexpr Ops StubTable() {
  return []<size_t... kSlots>(std::index_sequence<kSlots...>) {
    return Ops{sizeof(Ops), 0, (static_cast<void>(kSlots), AnyStub())...};
  }
  (std::make_index_sequence<(sizeof(Ops) - kFirstSlot<Ops>) / sizeof(void (*)())>());
}

template <typename Ops>
Ops Overlay(const void* table) {
  Ops ops = StubTable<Ops>();
  uint32_t bytes = 0;
  std::memcpy(&bytes, table, sizeof(bytes));
  bytes = std::min<uint32_t>(bytes, sizeof(Ops));
  for (size_t at = kFirstSlot<Ops>; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    void* slot = nullptr;
    std::memcpy(&slot, static_cast<const char*>(table) + at, sizeof(slot));
    if (slot != nullptr) std::memcpy(reinterpret_cast<char*>(&ops) + at, &slot, sizeof(slot));
  }
  return ops;
}

// Whether the module's own table fills the slot at `offset`.
inline bool HasSlot(const void* table, size_t offset) {
  uint32_t bytes = 0;
  void* slot = nullptr;
  std::memcpy(&bytes, table, sizeof(bytes));
  if (offset + sizeof(slot) > bytes) return false;
  std::memcpy(&slot, static_cast<const char*>(table) + offset, sizeof(slot));
  return slot != nullptr;
}

}  // namespace sl::conform

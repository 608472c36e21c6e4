// SPDX-License-Identifier: Apache-2.0
//
// The interfaces this kernel knows, and their tables of stubs. A module's table is laid over the stubs once, at load,
// so that nobody ever tests a slot for NULL: a call a module does not offer returns SL_ERR_UNSUPPORTED, does nothing
// (void), or returns NULL (pointers).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sdk/status.h"

namespace sl::kernel {

struct MandatorySlot {
  uint32_t offset;
  const char* name;
};

struct InterfaceInfo {
  const char* id;
  uint32_t revision;      // highest the kernel speaks
  uint32_t revision_min;  // lowest
  bool draft;             // modules must have been built with the same draft headers
  bool exclusive;         // only one module may serve it
  bool is_asked;          // the kernel calls its slots; what provides one that it does not has no effect
  const void* stubs;
  uint32_t bytes;  // of the kernel's table
  std::span<const MandatorySlot> mandatory;
};

std::span<const InterfaceInfo> KnownInterfaces();
// NULL: an interface among modules only; its tables pass through unchanged.
const InterfaceInfo* FindInterface(std::string_view id);

// A table of the kernel's size, 8-byte aligned.
using OverlaidTable = std::vector<uint64_t>;

// Copies the slots `ops` has and that are not NULL over the stubs; struct_size becomes the kernel's.
OverlaidTable OverlayTable(const InterfaceInfo& interface, const void* ops);

// What is wrong with a module's table: too short to be one, not of whole slots, a mandatory slot empty.
Status CheckTable(const InterfaceInfo& interface, const void* ops);

}  // namespace sl::kernel

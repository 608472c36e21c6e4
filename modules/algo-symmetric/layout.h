// SPDX-License-Identifier: Apache-2.0
//
// What lies where in a rank's slice of the symmetric heap. One list of regions yields every offset and the total.
#pragma once

#include <cstdint>

#include "sdk/device/packet.h"

namespace sl::algo_symmetric {

using dev::kLineBytes;
using dev::Packet;

// How far a rank has come, counted in rounds since the communicator began; written by the owner of the slice only.
struct alignas(kLineBytes) Counters {
  uint64_t staged;    // rounds whose input stands in this rank's stage slots
  uint64_t reduced;   // rounds whose result stands in this rank's result slots
  uint64_t consumed;  // rounds after which this rank reads nothing of anybody's any more
};

constexpr uint32_t kPacketSlots = 2;  // epochs alternate between two
constexpr uint32_t kRoundSlots = 4;   // rounds in flight; three suffice, the fourth hides a late neighbour

// Sizes that a profile may change; equal on all ranks.
struct Sizes {
  uint64_t small_bytes;   // publication of a one-shot operation
  uint64_t stage_bytes;   // one stage slot
  uint64_t result_bytes;  // one result slot

  static constexpr uint64_t Align(uint64_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }
};

// Offsets inside a slice.
struct Layout {
  uint64_t doorbell;
  uint64_t counters;
  uint64_t packets;  // kPacketSlots lines
  uint64_t small;    // kPacketSlots publications
  uint64_t stage;    // kRoundSlots slots: a line with the signature, then the pieces
  uint64_t result;   // kRoundSlots slots
  uint64_t small_stride;
  uint64_t stage_stride;
  uint64_t result_stride;
  uint64_t total;

  static constexpr Layout Of(const Sizes& sizes) {
    Layout layout{};
    layout.small_stride = Sizes::Align(sizes.small_bytes);
    layout.stage_stride = kLineBytes + Sizes::Align(sizes.stage_bytes);
    layout.result_stride = Sizes::Align(sizes.result_bytes);
    uint64_t at = 0;
    auto take = [&at](uint64_t bytes) {
      uint64_t offset = at;
      at += Sizes::Align(bytes);
      return offset;
    };
    layout.doorbell = take(kLineBytes);
    layout.counters = take(sizeof(Counters));
    layout.packets = take(kPacketSlots * sizeof(Packet));
    layout.small = take(kPacketSlots * layout.small_stride);
    layout.stage = take(kRoundSlots * layout.stage_stride);
    layout.result = take(kRoundSlots * layout.result_stride);
    layout.total = at;
    return layout;
  }
};
static_assert(Layout::Of({1, 1, 1}).total % kLineBytes == 0);

}  // namespace sl::algo_symmetric

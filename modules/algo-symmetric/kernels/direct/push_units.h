// SPDX-License-Identifier: Apache-2.0
//
// What a reduction whose contributions are pushed (push_reduce.h) is cut into, and what is kept of it in a slice.
#pragma once

#include "sdk/device/sync.h"

namespace sl::algo_symmetric::kernels {

// Units on their way to a rank, at most.
constexpr uint32_t kUnitSlots = 1024;
constexpr uint32_t kUnitParts = 2;  // that are reduced, and free again, one by one

// Units since the communicator began, and what of an operation's has been drawn; the latter 0 between launches.
struct UnitCounts {
  uint64_t pushed;
  uint64_t reduced;
  uint32_t pushes_drawn;
  uint32_t parts_drawn;
};

constexpr uint32_t kMostPushers = 8;  // warps of a block

// What the warps of a block that push tell the one that tells the peers: of units that they have stored.
struct Told {
  static constexpr uint32_t kWords = 8;  // of a pusher, that have not been told
  struct Word {
    uint64_t* stands;
    uint64_t number;
  };
  Word word[kMostPushers][kWords];
  uint32_t stored[kMostPushers];  // units so far; of each its word stands here, too
  uint32_t told[kMostPushers];    // and of so many the peers know
  uint32_t over[kMostPushers];    // 1: no more
};

// How work is divided among ranks, as it was quickest (docs/gpu-performance-log.md). Of two ranks one reduces as much
// as it pushes, of more of them less; and the longer units are, the fewer of them there is room for.
SL_HD constexpr uint32_t PushersOf(uint32_t ranks) { return ranks == 2 ? 5 : ranks == 3 ? 7 : kMostPushers; }
SL_HD constexpr uint32_t UnitBytesOf(uint32_t ranks) { return ranks == 2 ? 32 << 10 : 16 << 10; }

}  // namespace sl::algo_symmetric::kernels

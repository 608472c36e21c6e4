// SPDX-License-Identifier: Apache-2.0
//
// How an operation runs on a GPU: what families (families/family.h) go by, and what they find.
#pragma once

#include <cstdint>

#include "modules/algo-symmetric/grid.h"
#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/kernels/direct/direct.h"
#include "modules/algo-symmetric/pattern.h"

namespace sl::algo_symmetric {

struct Family;

// A rank draws the pieces of direct work of at least so many bytes. Below, a share for each block is quicker.
constexpr uint64_t kDrawnBytes = 4 << 20;

// Equal on all ranks.
struct GpuSettings {
  uint32_t staged_blocks;    // SMs of a staged or direct operation, at most
  uint32_t graph_lanes;      // lanes of captured graphs
  bool reaches = false;      // peers may reach the memory of callers
  bool pushes = true;        // direct all-gathers and all-to-alls store to their peers; else they load from them
  uint32_t dawdle_ns = 0;    // tests: see sdk/device/dawdle.h
  uint32_t first_epoch = 0;  // tests: counters whose low half wraps begin here
  bool serves_all =
      false;            // tests: families serve what they can though it does not pay, long direct work on all blocks
  bool depends = true;  // launches are dependent ones (sdk/device/grid.h)
  kernels::Trigger trigger = kernels::Trigger::kExit;  // of kernels, where launches are dependent ones
  uint64_t mailed_bytes = UINT64_MAX;                  // longest message by packets, if they have room for it
  uint64_t drawn_bytes = kDrawnBytes;                  // from which on direct work is drawn
  SmBudget budget = {};                                // of every operation
  bool on_host = false;                                // slices lie in host memory (sl_comm_shape_t::heap_on_host)

  // These on communicators of a shape.
  GpuSettings On(const sl_comm_shape_t& shape) const;
};

// How one rank launches a collective.
struct Choice {
  const Family* family;
  Pattern pattern;
  uint32_t blocks;             // of the grid
  uint32_t threads;            // of a block
  kernels::PacketCut packets;  // see Args
  uint64_t share_elements;
  uint64_t piece_elements;
  uint64_t rounds;
  uint64_t time_ns;
  kernels::DirectWork direct;  // of kind kNone unless the family is direct; what else is here cuts its rounds
  bool send_reached;           // direct: peers load from this rank's send buffer
  bool recv_reached;           // direct: and store to its receive buffer
};

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
//
// How an operation runs on a GPU: the protocol, the grid, the cut of the data. A pure function of the operation and of
// settings that are equal on all ranks; peers rely on each other's choosing alike.
#pragma once

#include <cstdint>

#include "modules/algo-symmetric/choice_table.h"
#include "modules/algo-symmetric/grid.h"
#include "modules/algo-symmetric/kernels/direct.h"
#include "modules/algo-symmetric/kernels/p2p_args.h"
#include "modules/algo-symmetric/pattern.h"

namespace sl::algo_symmetric {

// Of all ranges that a rank works on. Below, a share for each block is quicker.
constexpr uint64_t kDrawnBytes = 4 << 20;

struct GpuSettings {
  uint32_t staged_blocks;  // SMs of a staged or direct operation, at most
  uint32_t graph_lanes;    // lanes of captured graphs
  bool forced;             // `family` serves whatever it can, staged the rest
  Family family;
  bool reaches = false;      // peers may reach the memory of callers
  bool pushes = true;        // direct all-gathers and all-to-alls store to their peers; else they load from them
  uint32_t dawdle_ns = 0;    // tests: see sdk/device/dawdle.h
  uint32_t first_epoch = 0;  // tests: counters whose low half wraps begin here
  bool strict = false;       // what a forced family cannot serve is refused
  bool depends = true;       // launches are dependent ones (sdk/device/grid.h)
  kernels::Trigger trigger = kernels::Trigger::kExit;  // of kernels, where launches are dependent ones
  const ChoiceTable* table = nullptr;                  // asked before costs are estimated; outlives all that use it
  uint64_t drawn_bytes = kDrawnBytes;                  // from which on direct work is drawn
  SmBudget budget = {};                                // of every operation
  bool on_host = false;                                // slices lie in host memory (sl_comm_shape_t::heap_on_host)

  // These on communicators of a shape.
  GpuSettings On(const sl_comm_shape_t& shape) const;
};

struct Choice {
  Family family;
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
  bool is_told;                // by the table
};

// Of a collective, for one rank; ranks differ in `pattern` and in the direct work alone.
Choice Choose(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings);

// How messages go between `size` ranks; as a family that is forced would have them. The budget is shared by the queues
// of a group in which everybody sends to everybody, each of which has one block at least: how many channels a queue has
// must be known at both ends, and neither knows which other messages go with one.
kernels::P2pWays WaysOf(const GpuSettings& settings, uint32_t size);

// Of one message between two ranks.
struct P2pCost {
  uint32_t blocks;  // at each end
  uint64_t time_ns;
};
P2pCost CostOf(const sl_op_t& op, const kernels::P2pWays& ways, uint32_t size, const GpuSettings& settings);

}  // namespace sl::algo_symmetric

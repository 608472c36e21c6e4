// SPDX-License-Identifier: Apache-2.0
//
// What the families share whose blocks meet (kernels/direct/meeting.h) and then move or reduce what lies in callers'
// buffers.
#pragma once

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/grid.h"

namespace sl::algo_symmetric {

// Why callers' buffers cannot be used; NULL: they can.
const char* RefusesDirect(const sl_op_t& op, uint32_t size, const GpuSettings& settings);

enum class DirectWay : uint32_t {
  kWarps,  // each block has a share, or warps draw pieces of long work
  kBulk,   // the copy unit of an SM
  kUnits,  // contributions are stored to slots of whoever reduces them
};

struct DirectGrid {
  DirectWay way;
  Cost cost;
  uint32_t enough;  // blocks that reach all of the cost's rate
  uint32_t useful;  // more blocks gain nothing
};
Choice CutDirect(const DirectGrid& grid, const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings);

}  // namespace sl::algo_symmetric

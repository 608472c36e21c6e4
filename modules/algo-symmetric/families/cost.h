// SPDX-License-Identifier: Apache-2.0
//
// What families have in common where they say what an operation costs.
#pragma once

#include <cstdint>

#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/grid.h"

namespace sl::algo_symmetric {

// One way of going, by where it goes. Packets that carry their epoch travel twice as large as their data.
struct Costs {
  Cost wire;     // NVLink
  Cost odd;      // where ranks' parts of buffers do not begin at vectors
  Cost on_host;  // through slices in host memory; {}: there is no such way
};

// Whether ranks' parts of a buffer begin at multiples of so many bytes, should the buffer do so.
bool BeginAt(uint32_t bytes, const sl_op_t& op);

const Cost& CostOf(const Costs& costs, const sl_op_t& op, const GpuSettings& settings);

// Bytes of the longer buffer of a rank.
uint64_t LongerBytes(const sl_op_t& op, uint32_t size);

// Bytes that the busiest rank sends, in one shot or in two.
double SentBytes(const sl_op_t& op, uint32_t size, bool two_shot);

}  // namespace sl::algo_symmetric

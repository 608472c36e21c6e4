// SPDX-License-Identifier: Apache-2.0
//
// How many blocks an operation on a GPU gets, and what fewer cost: a block is an SM. Pure functions of what is equal on
// all ranks.
#pragma once

#include <cstdint>

#include "sl_algorithm.h"

namespace sl::algo_symmetric {

// What one operation may hold, as the shape of its communicator says.
struct SmBudget {
  uint32_t least = 0;
  uint32_t most = 0;    // 0: not bound
  uint32_t weight = 0;  // see sl_comm_shape_t::processor_weight

  static SmBudget Of(const sl_comm_shape_t& shape);
  uint32_t Most(uint32_t otherwise) const { return most != 0 && most < otherwise ? most : otherwise; }
};

// Time in a graph: a start (launch, hops, fences), and the bytes that one GPU sends.
struct Cost {
  double start_ns;
  double bytes_per_ns;
};

// From this length of a rank's longer buffer on, a direct operation gets no more blocks than the wire needs.
constexpr uint64_t kLongBytes = 64 << 20;

// Blocks that come within 3 % of what more of them reach over the wire (docs/gpu-performance.md): 10 that store what
// they draw (353 of 355 GB/s, by bench_wire on 4 H200); 16 that reduce, of two ranks, too (312 of 316, on 2 H100).
constexpr uint32_t kStoringBlocks = 10;
constexpr uint32_t kReducingBlocks = 16;
// Where results do not begin at vectors: of three H200 16 take half as long again, of four a twentieth.
constexpr uint32_t kOddReducingBlocks = 24;
// That push and reduce, on 2 to 4 H200: of two ranks 20 take a fifth longer than 24, of three 16 an eighth longer than
// 20; more crowd the slots.
constexpr uint32_t PushingBlocks(uint32_t size) { return size == 2 ? 24 : size == 3 ? 20 : 16; }
// And in bulk: 8 of 10 on 4 H200, and on 2 H100 two more for what stays at home gain nothing.
constexpr uint32_t kBulkBlocks = 8;
// All that those store goes over the wire; in a collective of `size` ranks one part in `size` stays at home.
constexpr uint32_t WithHomeWork(uint32_t blocks, uint32_t size) { return (blocks * size + size - 2) / (size - 1); }
// Of a direct operation, blocks that are enough for the wire.
uint32_t BlocksForWire(sl_op_kind_t kind, uint32_t size);

// An operation, as far as its grid goes.
struct GridWork {
  Cost cost;
  double bytes;     // that the busiest rank sends
  uint32_t wanted;  // blocks that it is worth where nothing binds; with less than these, or `enough`, it is slower
  uint32_t enough;  // blocks that reach all of cost.bytes_per_ns
  uint32_t fewest = 1;

  uint64_t NanosecondsOn(uint32_t blocks) const;
};

// What counts where time is traded against SMs.
double Weighed(uint64_t time_ns, uint32_t blocks, const SmBudget& budget);

// Blocks for it: as wanted, within the budget, `most` and its fewest; fewer where the weight says that the others are
// worth more than what they save. The fewest win over the budget: ask first whether they fit.
uint32_t BlocksFor(const GridWork& work, uint32_t most, const SmBudget& budget);

}  // namespace sl::algo_symmetric

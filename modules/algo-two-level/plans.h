// SPDX-License-Identifier: Apache-2.0
//
// The plans, each a function of the shape of the communicator and of the operation.
//
// Every plan has the same three parts: ranks of a host put together what they have; one rank of each host and shard
// exchanges it with its like on the other hosts, so that every byte crosses a host's border once; ranks of a host hand
// out the result. Shards let all ranks of a host, and so all its links, take part in the crossing.
#pragma once

#include <cstdint>

#include "sdk/plan_writer.h"
#include "shape.h"
#include "sl_algorithm.h"

namespace sl::algo_two_level {

// What the slowest rank does, and what crosses one host's border in one direction.
struct Work {
  uint64_t local_hops = 0;
  uint64_t network_hops = 0;
  uint64_t local_messages = 0;  // that one rank sends or receives
  uint64_t network_messages = 0;
  double local_bytes = 0;
  double border_bytes = 0;
};

// all_reduce.cc
void AllReduceByRing(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
Work WorkOfRing(const Shape& shape, const sl_op_t& op);
// exchange.cc
void AllReduceByExchange(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
Work WorkOfExchange(const Shape& shape, const sl_op_t& op);
// blocks.cc
void AllGather(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
void ReduceScatter(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
// rooted.cc
void Broadcast(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
void Reduce(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
// bundles.cc
void AllToAll(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
void Gather(const Shape& shape, const sl_op_t& op, PlanWriter* writer);
void Scatter(const Shape& shape, const sl_op_t& op, PlanWriter* writer);

}  // namespace sl::algo_two_level

// SPDX-License-Identifier: Apache-2.0
//
// The two-level algorithm of one rank: what it serves, at what cost, and its plans, which are in all_reduce.cc and
// exchange.cc (all-reduce), blocks.cc (all-gather, reduce-scatter), rooted.cc (broadcast, reduce) and bundles.cc
// (all-to-all, gather, scatter).
//
// Every plan has the same three parts: ranks of a host put together what they have; one rank of each host and shard
// exchanges it with its like on the other hosts, so that every byte crosses a host's border once; ranks of a host hand
// out the result. Shards let all ranks of a host, and so all its links, take part in the crossing.
#pragma once

#include <cstdint>

#include "hosts.h"
#include "sdk/link_cost.h"
#include "sdk/plan_cut.h"
#include "sdk/plan_writer.h"
#include "sdk/status.h"
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

}  // namespace sl::algo_two_level

struct sl_algorithm_t {
  sl_algorithm_t(const sl_host_t* host, const sl_comm_shape_t& shape, const sl::LinkCost& cost);

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  sl::Status Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const;

  const sl_host_t* const host;

 private:
  const char* Refuses(const sl_op_t& op) const;
  sl::algo_two_level::Work WorkOf(const sl_op_t& op) const;
  uint64_t TimeOf(const sl::algo_two_level::Work& work) const;
  // Blocks that must fit a chunk together; 0: they need not.
  uint32_t BundledBlocks(sl_op_kind_t kind) const;

  sl::Pieces CutBlock(const sl_op_t& op, uint64_t length) const;
  sl_plan_desc_t Describe(const sl_op_t& op, uint64_t length, uint32_t blocks, const sl_geometry_t& send,
                          const sl_geometry_t& recv) const;
  // Shards of a buffer that is cut freely: fewer where they would be so short that a message costs more than it
  // carries.
  uint32_t ShardsFor(const sl_op_t& op) const;
  // Plan lanes for buffers that are cut freely: several, where every block fills a chunk.
  uint32_t LanesFor(const sl_op_t& op, uint32_t blocks) const;
  // How many times each of so many blocks of an all-reduce is cut again, into waves that follow each other: where they
  // fill chunks and links have the slots, two for a wave.
  uint32_t WavesFor(const sl_op_t& op, uint32_t blocks) const;
  // Chunks that one rank sends to one of another host before the other takes the first.
  uint32_t Incast() const;
  // For so many hosts a reduce-scatter's ranks contribute before they wait for each other.
  uint32_t HostsAhead() const;

  // Sends this rank's own contribution, as only it can scale it.
  void Contribute(uint32_t to, sl_operand_t send, sl::PlanWriter* writer) const;
  // The sum over this host's members of the block named, in `into`; the others contribute theirs.
  void SumOfHost(sl_operand_t send, sl_operand_t into, sl::PlanWriter* writer) const;
  void Take(uint32_t from, sl_operand_t into, sl::PlanWriter* writer) const;

  void AllReduce(const sl_op_t& op, sl::PlanWriter* writer) const;
  // Whether an all-reduce goes by exchange, rather than round a ring of hosts.
  bool Exchanges(const sl_op_t& op) const;
  struct ExchangeShape;  // how the buffer is cut then
  ExchangeShape ExchangeOf(const sl_op_t& op) const;
  sl::algo_two_level::Work WorkOfExchange(const sl_op_t& op) const;
  void Exchange(const sl_op_t& op, sl::PlanWriter* writer) const;
  void ExchangeLane(const ExchangeShape& shape, uint32_t lane, sl::PlanWriter* writer) const;
  void SumOfHosts(sl_operand_t own, sl_operand_t into, sl::PlanWriter* writer) const;

  sl::algo_two_level::Work WorkOfRing(const sl_op_t& op) const;
  struct LaneBlocks;  // how one lane's blocks lie on the ring
  void SumUp(const LaneBlocks& blocks, sl::PlanWriter* writer) const;
  void RingOfHosts(const LaneBlocks& blocks, sl::PlanWriter* writer) const;
  void AllGather(const sl_op_t& op, sl::PlanWriter* writer) const;
  void ReduceScatter(const sl_op_t& op, sl::PlanWriter* writer) const;
  void Broadcast(const sl_op_t& op, sl::PlanWriter* writer) const;
  void BroadcastLane(uint32_t root, uint32_t shards, uint32_t lane, uint32_t lanes, sl::PlanWriter* writer) const;
  void Reduce(const sl_op_t& op, sl::PlanWriter* writer) const;
  void ReduceLane(uint32_t root, uint32_t shards, uint32_t lane, uint32_t lanes, sl::PlanWriter* writer) const;
  void AllToAll(const sl_op_t& op, sl::PlanWriter* writer) const;
  void Gather(const sl_op_t& op, sl::PlanWriter* writer) const;
  void Scatter(const sl_op_t& op, sl::PlanWriter* writer) const;

  const sl::algo_two_level::Hosts hosts_;
  const sl::LinkCost cost_;
  const uint64_t chunk_bytes_;
  const uint32_t link_lanes_;
  const uint32_t link_slots_;
};

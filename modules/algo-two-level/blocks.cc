// SPDX-License-Identifier: Apache-2.0
//
// All-gather and reduce-scatter: one block a rank. A block belongs to the shard of its rank's place on its host, so a
// host's blocks are carried by all its owners.
#include <algorithm>

#include "plans.h"
#include "sdk/datatype.h"
#include "steps.h"

namespace sl::algo_two_level {

// A rank sends its block to one owner on every other host, and to its neighbours; owners hand out what they get.
void AllGather(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const sl_geometry_t one = Blocks(op.count, 1);
  const sl_geometry_t all = Blocks(op.count, hosts.size);
  writer->Begin(shape.Describe(op, op.count, hosts.size, one, all));
  const uint32_t own_host = hosts.host();
  const std::vector<uint32_t> others = hosts.Others();
  for (uint32_t i = 1; i < hosts.count(); ++i) {
    writer->Put(hosts.Owner(hosts.HostAfter(own_host, i), hosts.ShardOf(hosts.rank)), SendBlock(0), SendBlock(0));
  }
  for (const uint32_t other : others) writer->Put(other, SendBlock(0), SendBlock(0));
  writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(hosts.rank));
  for (const uint32_t other : others) Take(other, RecvBlock(other), writer);
  // What each owner brings in, the nearest hosts first; one of each owner in turn, so that all of them work.
  std::vector<std::vector<uint32_t>> brought(hosts.shards);
  for (uint32_t i = 1; i < hosts.count(); ++i) {
    for (const uint32_t rank : hosts.members[hosts.HostAfter(own_host, i)]) {
      brought[hosts.ShardOf(rank)].push_back(rank);
    }
  }
  size_t turns = 0;
  for (const auto& ranks : brought) turns = std::max(turns, ranks.size());
  for (size_t turn = 0; turn < turns; ++turn) {
    if (hosts.owns() && turn < brought[hosts.index()].size()) {
      const uint32_t from = brought[hosts.index()][turn];
      Take(from, RecvBlock(from), writer);
      for (const uint32_t other : others) writer->Put(other, RecvBlock(from), RecvBlock(from));
    }
    for (uint32_t shard = 0; shard < hosts.shards; ++shard) {
      if (shard == hosts.index() || turn >= brought[shard].size()) continue;
      Take(hosts.Owner(own_host, shard), RecvBlock(brought[shard][turn]), writer);
    }
  }
}

// For every block, the members of each host sum up at the owner of its shard, which sends the sum to its like on the
// block's host. First what goes to other hosts, so that all of it is under way before anybody waits for it. Neighbours
// get contributions for as many hosts ahead as links have slots for, so that nobody waits for a neighbour who waits for
// somebody else. No cycle: only who is ahead of another rank can be out of credit there, so whoever is behind all
// others never is, and has been given all it waits for.
void ReduceScatter(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const sl_geometry_t one = Blocks(op.count, 1);
  const sl_geometry_t all = Blocks(op.count, hosts.size);
  sl_plan_desc_t desc = shape.Describe(op, op.count, hosts.size, all, one);
  const uint32_t incast = shape.Incast();
  // For so many hosts ranks contribute before they wait for each other.
  const uint32_t ahead = std::clamp(shape.link_slots / incast, 1u, hosts.count());
  desc.credits = ahead * incast;
  desc.scratch = one;
  desc.scratch_bytes = op.count * DatatypeBytes(op.datatype);
  writer->Begin(desc);
  const uint32_t own_host = hosts.host();
  const sl_operand_t sum = ScratchBlock(0);
  const auto carrier_of = [&](uint32_t rank) { return hosts.Owner(own_host, hosts.ShardOf(rank)); };
  const auto contribute = [&](uint32_t distance) {
    for (const uint32_t rank : hosts.members[hosts.HostAfter(own_host, distance)]) {
      if (carrier_of(rank) != hosts.rank) Contribute(carrier_of(rank), SendBlock(rank), writer);
    }
  };
  for (uint32_t i = 1; i < ahead; ++i) contribute(i);
  for (uint32_t i = 1; i <= hosts.count(); ++i) {
    if (i + ahead <= hosts.count() + 1) contribute(i + ahead - 1);
    const uint32_t at = hosts.HostAfter(own_host, i);
    for (const uint32_t rank : hosts.members[at]) {
      const sl_operand_t part = SendBlock(rank);
      if (carrier_of(rank) != hosts.rank) continue;
      SumOfHost(hosts, part, sum, writer);
      if (at != own_host) {
        writer->Put(hosts.Owner(at, hosts.ShardOf(rank)), part, sum);
        continue;
      }
      for (uint32_t j = 1; j < hosts.count(); ++j) {
        const uint32_t from = hosts.Owner(hosts.HostAfter(own_host, j), hosts.ShardOf(rank));
        const bool last = j + 1 == hosts.count();
        writer->Wait(from, part);
        writer->Reduce(part, last ? SL_STEP_FINAL : 0, sum, Inbox(from),
                       last && rank == hosts.rank ? RecvBlock(0) : sum);
        writer->Release(from, part);
      }
      if (rank != hosts.rank) writer->Put(rank, part, sum);
    }
  }
  if (carrier_of(hosts.rank) != hosts.rank) Take(carrier_of(hosts.rank), RecvBlock(0), writer);
}

}  // namespace sl::algo_two_level

// SPDX-License-Identifier: Apache-2.0
//
// All-gather and reduce-scatter: one block a rank. A block belongs to the shard of its rank's place on its host, so a
// host's blocks are carried by all its owners.
#include <algorithm>

#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::SendBlock;

// A rank sends its block to one owner on every other host, and to its neighbours; owners hand out what they get.
void sl_algorithm_t::AllGather(const sl_op_t& op, sl::PlanWriter* writer) const {
  const sl_geometry_t one = sl::Blocks(op.count, 1);
  const sl_geometry_t all = sl::Blocks(op.count, hosts_.size);
  writer->Begin(Describe(op, op.count, hosts_.size, one, all));
  const uint32_t own_host = hosts_.host();
  const std::vector<uint32_t> others = hosts_.Others();
  for (uint32_t i = 1; i < hosts_.count(); ++i) {
    writer->Put(hosts_.Owner(hosts_.HostAfter(own_host, i), hosts_.ShardOf(hosts_.rank)), SendBlock(0), SendBlock(0));
  }
  for (const uint32_t other : others) writer->Put(other, SendBlock(0), SendBlock(0));
  writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(hosts_.rank));
  for (const uint32_t other : others) Take(other, RecvBlock(other), writer);
  // What each owner brings in, the nearest hosts first; one of each owner in turn, so that all of them work.
  std::vector<std::vector<uint32_t>> brought(hosts_.shards);
  for (uint32_t i = 1; i < hosts_.count(); ++i) {
    for (const uint32_t rank : hosts_.members[hosts_.HostAfter(own_host, i)]) {
      brought[hosts_.ShardOf(rank)].push_back(rank);
    }
  }
  size_t turns = 0;
  for (const auto& ranks : brought) turns = std::max(turns, ranks.size());
  for (size_t turn = 0; turn < turns; ++turn) {
    if (hosts_.owns() && turn < brought[hosts_.index()].size()) {
      const uint32_t from = brought[hosts_.index()][turn];
      Take(from, RecvBlock(from), writer);
      for (const uint32_t other : others) writer->Put(other, RecvBlock(from), RecvBlock(from));
    }
    for (uint32_t shard = 0; shard < hosts_.shards; ++shard) {
      if (shard == hosts_.index() || turn >= brought[shard].size()) continue;
      Take(hosts_.Owner(own_host, shard), RecvBlock(brought[shard][turn]), writer);
    }
  }
}

// For every block, the members of each host sum up at the owner of its shard, which sends the sum to its like on the
// block's host. First what goes to other hosts, so that all of it is under way before anybody waits for it. Neighbours
// get contributions for as many hosts ahead as links have slots for, so that nobody waits for a neighbour who waits for
// somebody else. No cycle: only who is ahead of another rank can be out of credit there, so whoever is behind all
// others never is, and has been given all it waits for.
void sl_algorithm_t::ReduceScatter(const sl_op_t& op, sl::PlanWriter* writer) const {
  const sl_geometry_t one = sl::Blocks(op.count, 1);
  const sl_geometry_t all = sl::Blocks(op.count, hosts_.size);
  sl_plan_desc_t desc = Describe(op, op.count, hosts_.size, all, one);
  const uint32_t ahead = HostsAhead();
  desc.credits = ahead * Incast();
  desc.scratch = one;
  desc.scratch_bytes = op.count * sl::DatatypeBytes(op.datatype);
  writer->Begin(desc);
  const uint32_t own_host = hosts_.host();
  const sl_operand_t sum = sl::ScratchBlock(0);
  const auto carrier_of = [&](uint32_t rank) { return hosts_.Owner(own_host, hosts_.ShardOf(rank)); };
  const auto contribute = [&](uint32_t distance) {
    for (const uint32_t rank : hosts_.members[hosts_.HostAfter(own_host, distance)]) {
      if (carrier_of(rank) != hosts_.rank) Contribute(carrier_of(rank), SendBlock(rank), writer);
    }
  };
  for (uint32_t i = 1; i < ahead; ++i) contribute(i);
  for (uint32_t i = 1; i <= hosts_.count(); ++i) {
    if (i + ahead <= hosts_.count() + 1) contribute(i + ahead - 1);
    const uint32_t at = hosts_.HostAfter(own_host, i);
    for (const uint32_t rank : hosts_.members[at]) {
      const sl_operand_t part = SendBlock(rank);
      if (carrier_of(rank) != hosts_.rank) continue;
      SumOfHost(part, sum, writer);
      if (at != own_host) {
        writer->Put(hosts_.Owner(at, hosts_.ShardOf(rank)), part, sum);
        continue;
      }
      for (uint32_t j = 1; j < hosts_.count(); ++j) {
        const uint32_t from = hosts_.Owner(hosts_.HostAfter(own_host, j), hosts_.ShardOf(rank));
        const bool last = j + 1 == hosts_.count();
        writer->Wait(from, part);
        writer->Reduce(part, last ? SL_STEP_FINAL : 0, sum, sl::Inbox(from),
                       last && rank == hosts_.rank ? RecvBlock(0) : sum);
        writer->Release(from, part);
      }
      if (rank != hosts_.rank) writer->Put(rank, part, sum);
    }
  }
  if (carrier_of(hosts_.rank) != hosts_.rank) Take(carrier_of(hosts_.rank), RecvBlock(0), writer);
}

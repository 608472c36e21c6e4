// SPDX-License-Identifier: Apache-2.0
//
// All-reduce: the members of a host sum up, each owner one shard; owners of a shard reduce it round the ring of hosts
// and send it round again (as rings do: every byte of the shard leaves a host 2 (H - 1) / H times); owners hand it out.
//
// Blocks: a buffer is cut into lanes * shards * hosts blocks, so that a step along the ring of hosts is a fixed stride.
#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::SendBlock;

void sl_algorithm_t::AllReduce(const sl_op_t& op, sl::PlanWriter* writer) const {
  const uint32_t lanes = LanesFor(op, hosts_.shards * hosts_.count());
  const uint32_t blocks = lanes * hosts_.shards * hosts_.count();
  const uint64_t length = sl::BlockOf(op.count, blocks);
  const sl_geometry_t split = sl::Split(op.count, length);
  sl_plan_desc_t desc = Describe(op, length, blocks, split, split);
  desc.credits = 2;
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    AllReduceLane(lane, lanes, writer);
  }
}

void sl_algorithm_t::AllReduceLane(uint32_t lane, uint32_t lanes, sl::PlanWriter* writer) const {
  const uint32_t own_host = hosts_.host();
  const uint32_t hosts = hosts_.count();
  const uint32_t step = lanes * hosts_.shards;
  const auto block = [&](uint32_t shard, uint32_t at_host) { return at_host * step + shard * lanes + lane; };
  // First the block with which the ring begins.
  for (uint32_t i = 0; i < hosts; ++i) {
    const uint32_t at = hosts_.HostAfter(own_host, hosts - i);
    for (uint32_t shard = 0; shard < hosts_.shards; ++shard) {
      const sl_operand_t part = SendBlock(block(shard, at));
      if (shard != hosts_.index()) Contribute(hosts_.Owner(own_host, shard), part, writer);
    }
    if (hosts_.owns()) {
      const uint32_t mine = block(hosts_.index(), at);
      SumOfHost(SendBlock(mine), RecvBlock(mine), writer);
    }
  }
  if (hosts_.owns()) RingOfHosts(block(hosts_.index(), 0), step, step * hosts, writer);
  for (uint32_t i = 0; i < hosts; ++i) {
    const uint32_t at = hosts_.HostAfter(own_host, hosts + 1 - i);
    for (const uint32_t other : hosts_.Others()) {
      const sl_operand_t part = RecvBlock(block(hosts_.index(), at));
      if (hosts_.owns()) writer->Put(other, part, part);
    }
    for (uint32_t shard = 0; shard < hosts_.shards; ++shard) {
      if (shard != hosts_.index()) Take(hosts_.Owner(own_host, shard), RecvBlock(block(shard, at)), writer);
    }
  }
}

// This owner's blocks are `first`, `first` + step, …: one for each host.
void sl_algorithm_t::RingOfHosts(uint32_t first, uint32_t step, uint32_t modulus, sl::PlanWriter* writer) const {
  const uint32_t hosts = hosts_.count();
  const uint32_t next = hosts_.Owner(hosts_.HostAfter(hosts_.host(), 1), hosts_.index());
  const uint32_t previous = hosts_.Owner(hosts_.HostAfter(hosts_.host(), hosts - 1), hosts_.index());
  const auto block = [&](uint32_t distance) {
    return static_cast<uint32_t>((first + uint64_t{hosts_.HostAfter(hosts_.host(), distance)} * step) % modulus);
  };
  const auto back = -static_cast<int32_t>(step);
  writer->Put(next, RecvBlock(block(0)), RecvBlock(block(0)));
  writer->Repeat(hosts - 2, [&] {
    const sl_operand_t own = RecvBlock(block(hosts - 1), back);
    writer->Relay(previous, next, own, [&] { writer->Reduce(own, 0, sl::Inbox(previous), own, sl::Outbox(next)); });
  });
  const sl_operand_t complete = RecvBlock(block(1));
  writer->Relay(previous, next, complete, [&] {
    writer->Reduce(complete, SL_STEP_FINAL, sl::Inbox(previous), complete, complete, sl::Outbox(next));
  });
  writer->Repeat(hosts - 2, [&] {
    const sl_operand_t own = RecvBlock(block(0), back);
    writer->Relay(previous, next, own, [&] { writer->Copy(own, sl::Inbox(previous), own, sl::Outbox(next)); });
  });
  Take(previous, RecvBlock(block(2)), writer);
}

// SPDX-License-Identifier: Apache-2.0
//
// All-reduce by exchange: the members of a host sum up at owners, every owner sends its sum to its likes on all other
// hosts, and each of them puts the sums together, in the order of hosts. One hop between hosts, where a ring takes
// 2 (H - 1): with two hosts for the same bytes, with more of them for little data.
#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::ScratchBlock;
using sl::SendBlock;

struct sl_algorithm_t::ExchangeShape {
  uint32_t shards;
  uint32_t lanes;
  uint32_t waves;

  uint32_t blocks() const { return shards * lanes * waves; }
};

sl_algorithm_t::ExchangeShape sl_algorithm_t::ExchangeOf(const sl_op_t& op) const {
  const uint32_t shards = ShardsFor(op);
  const uint32_t lanes = LanesFor(op, shards);
  return {shards, lanes, WavesFor(op, shards * lanes)};
}

sl::algo_two_level::Work sl_algorithm_t::WorkOfExchange(const sl_op_t& op) const {
  const ExchangeShape shape = ExchangeOf(op);
  const auto bytes = static_cast<double>(op.count * sl::DatatypeBytes(op.datatype));
  const uint64_t rounds = CutBlock(op, sl::BlockOf(op.count, shape.blocks())).rounds;
  sl::algo_two_level::Work work;
  work.local_hops = 2 * rounds;
  work.network_hops = rounds;
  work.local_messages = rounds * shape.waves * 2 * (hosts_.most() - 1);
  work.network_messages = rounds * shape.waves * (hosts_.count() - 1);
  work.local_bytes = 2 * bytes * (hosts_.most() - 1) / shape.shards;
  work.border_bytes = bytes * (hosts_.count() - 1);
  return work;
}

void sl_algorithm_t::Exchange(const sl_op_t& op, sl::PlanWriter* writer) const {
  const ExchangeShape shape = ExchangeOf(op);
  const uint64_t length = sl::BlockOf(op.count, shape.blocks());
  const sl_geometry_t split = sl::Split(op.count, length);
  sl_plan_desc_t desc = Describe(op, length, shape.blocks(), split, split);
  if (hosts_.count() > 2) {
    desc.scratch = split;
    desc.scratch_bytes = op.count * sl::DatatypeBytes(op.datatype);
  }
  desc.credits = shape.waves;
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < shape.lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    ExchangeLane(shape, lane, writer);
  }
}

// All waves leave before the first is waited for. Of two sums the own one may lie where the result goes; of more it
// would be overwritten before its turn comes.
void sl_algorithm_t::ExchangeLane(const ExchangeShape& shape, uint32_t lane, sl::PlanWriter* writer) const {
  const uint32_t own_host = hosts_.host();
  const auto block = [&](uint32_t shard, uint32_t wave) { return (shard * shape.lanes + lane) * shape.waves + wave; };
  const auto own_sum = [&](uint32_t at) { return hosts_.count() > 2 ? ScratchBlock(at) : RecvBlock(at); };
  const bool owns = hosts_.index() < shape.shards;
  for (uint32_t wave = 0; wave < shape.waves; ++wave) {
    for (uint32_t shard = 0; shard < shape.shards; ++shard) {
      if (shard != hosts_.index()) Contribute(hosts_.Owner(own_host, shard), SendBlock(block(shard, wave)), writer);
    }
    if (!owns) continue;
    const uint32_t mine = block(hosts_.index(), wave);
    SumOfHost(SendBlock(mine), own_sum(mine), writer);
    for (uint32_t i = 1; i < hosts_.count(); ++i) {
      const uint32_t like = hosts_.Owner(hosts_.HostAfter(own_host, i), hosts_.index());
      writer->Put(like, own_sum(mine), own_sum(mine));
    }
  }
  for (uint32_t wave = 0; wave < shape.waves && owns; ++wave) {
    const uint32_t mine = block(hosts_.index(), wave);
    SumOfHosts(own_sum(mine), RecvBlock(mine), writer);
    for (const uint32_t other : hosts_.Others()) writer->Put(other, RecvBlock(mine), RecvBlock(mine));
  }
  for (uint32_t wave = 0; wave < shape.waves; ++wave) {
    for (uint32_t shard = 0; shard < shape.shards; ++shard) {
      if (shard != hosts_.index()) Take(hosts_.Owner(own_host, shard), RecvBlock(block(shard, wave)), writer);
    }
  }
}

// In the order of hosts, on every host.
void sl_algorithm_t::SumOfHosts(sl_operand_t own, sl_operand_t into, sl::PlanWriter* writer) const {
  const auto like = [&](uint32_t at) { return hosts_.Owner(at, hosts_.index()); };
  const auto sum = [&](uint32_t at) { return at == hosts_.host() ? own : sl::Inbox(like(at)); };
  const auto wait = [&](uint32_t at) {
    if (at != hosts_.host()) writer->Wait(like(at), own);
  };
  const auto release = [&](uint32_t at) {
    if (at != hosts_.host()) writer->Release(like(at), own);
  };
  wait(0);
  for (uint32_t at = 1; at < hosts_.count(); ++at) {
    wait(at);
    const bool last = at + 1 == hosts_.count();
    writer->Reduce(own, last ? SL_STEP_FINAL : 0, at == 1 ? sum(0) : into, sum(at), into);
    if (at == 1) release(0);
    release(at);
  }
}

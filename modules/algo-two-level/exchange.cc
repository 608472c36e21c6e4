// SPDX-License-Identifier: Apache-2.0
//
// All-reduce by exchange: the members of a host sum up at owners, every owner sends its sum to its likes on all other
// hosts, and each of them puts the sums together, in the order of hosts. One hop between hosts, where a ring takes
// 2 (H - 1): with two hosts for the same bytes, with more of them for little data.
#include "plans.h"
#include "sdk/datatype.h"
#include "steps.h"

namespace sl::algo_two_level {
namespace {

// How the buffer is cut.
struct Cut {
  uint32_t shards;
  uint32_t lanes;
  uint32_t waves;

  uint32_t blocks() const { return shards * lanes * waves; }
};

Cut CutOf(const Shape& shape, const sl_op_t& op) {
  const uint32_t shards = shape.ShardsFor(op);
  const uint32_t lanes = shape.LanesFor(op, shards);
  return {shards, lanes, shape.WavesFor(op, shards * lanes)};
}

// In the order of hosts, on every host.
void SumOfHosts(const Hosts& hosts, sl_operand_t own, sl_operand_t into, PlanWriter* writer) {
  const auto like = [&](uint32_t at) { return hosts.Owner(at, hosts.index()); };
  const auto sum = [&](uint32_t at) { return at == hosts.host() ? own : Inbox(like(at)); };
  const auto wait = [&](uint32_t at) {
    if (at != hosts.host()) writer->Wait(like(at), own);
  };
  const auto release = [&](uint32_t at) {
    if (at != hosts.host()) writer->Release(like(at), own);
  };
  wait(0);
  for (uint32_t at = 1; at < hosts.count(); ++at) {
    wait(at);
    const bool last = at + 1 == hosts.count();
    writer->Reduce(own, last ? SL_STEP_FINAL : 0, at == 1 ? sum(0) : into, sum(at), into);
    if (at == 1) release(0);
    release(at);
  }
}

// All waves leave before the first is waited for. Of two sums the own one may lie where the result goes; of more it
// would be overwritten before its turn comes.
void ExchangeLane(const Hosts& hosts, const Cut& cut, uint32_t lane, PlanWriter* writer) {
  const uint32_t own_host = hosts.host();
  const auto block = [&](uint32_t shard, uint32_t wave) { return (shard * cut.lanes + lane) * cut.waves + wave; };
  const auto own_sum = [&](uint32_t at) { return hosts.count() > 2 ? ScratchBlock(at) : RecvBlock(at); };
  const bool owns = hosts.index() < cut.shards;
  for (uint32_t wave = 0; wave < cut.waves; ++wave) {
    for (uint32_t shard = 0; shard < cut.shards; ++shard) {
      if (shard != hosts.index()) Contribute(hosts.Owner(own_host, shard), SendBlock(block(shard, wave)), writer);
    }
    if (!owns) continue;
    const uint32_t mine = block(hosts.index(), wave);
    SumOfHost(hosts, SendBlock(mine), own_sum(mine), writer);
    for (uint32_t i = 1; i < hosts.count(); ++i) {
      const uint32_t like = hosts.Owner(hosts.HostAfter(own_host, i), hosts.index());
      writer->Put(like, own_sum(mine), own_sum(mine));
    }
  }
  for (uint32_t wave = 0; wave < cut.waves && owns; ++wave) {
    const uint32_t mine = block(hosts.index(), wave);
    SumOfHosts(hosts, own_sum(mine), RecvBlock(mine), writer);
    for (const uint32_t other : hosts.Others()) writer->Put(other, RecvBlock(mine), RecvBlock(mine));
  }
  for (uint32_t wave = 0; wave < cut.waves; ++wave) {
    for (uint32_t shard = 0; shard < cut.shards; ++shard) {
      if (shard != hosts.index()) Take(hosts.Owner(own_host, shard), RecvBlock(block(shard, wave)), writer);
    }
  }
}

}  // namespace

Work WorkOfExchange(const Shape& shape, const sl_op_t& op) {
  const Hosts& hosts = shape.hosts;
  const Cut cut = CutOf(shape, op);
  const auto bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  const uint64_t rounds = shape.CutBlock(op, BlockOf(op.count, cut.blocks())).rounds;
  Work work;
  work.local_hops = 2 * rounds;
  work.network_hops = rounds;
  work.local_messages = rounds * cut.waves * 2 * (hosts.most() - 1);
  work.network_messages = rounds * cut.waves * (hosts.count() - 1);
  work.local_bytes = 2 * bytes * (hosts.most() - 1) / cut.shards;
  work.border_bytes = bytes * (hosts.count() - 1);
  return work;
}

void AllReduceByExchange(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Cut cut = CutOf(shape, op);
  const uint64_t length = BlockOf(op.count, cut.blocks());
  const sl_geometry_t split = Split(op.count, length);
  sl_plan_desc_t desc = shape.Describe(op, length, cut.blocks(), split, split);
  if (shape.hosts.count() > 2) {
    desc.scratch = split;
    desc.scratch_bytes = op.count * DatatypeBytes(op.datatype);
  }
  desc.credits = cut.waves;
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < cut.lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    ExchangeLane(shape.hosts, cut, lane, writer);
  }
}

}  // namespace sl::algo_two_level

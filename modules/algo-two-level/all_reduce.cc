// SPDX-License-Identifier: Apache-2.0
//
// All-reduce round a ring: the members of a host sum up, each owner one shard; owners of a shard reduce it round the
// ring of hosts and send it round again (as rings do: every byte of the shard leaves a host 2 (H - 1) / H times);
// owners hand it out.
//
// Blocks: a buffer is cut into hosts * shards * lanes * waves blocks, so that a step along the ring of hosts is a fixed
// stride. The waves of a lane do every part one after the other before the lane goes on to the next part: while one
// crosses the border, the next one is summed up behind it, and the one before is handed out.
#include "plans.h"
#include "sdk/datatype.h"
#include "steps.h"

namespace sl::algo_two_level {
namespace {

// How one lane's blocks lie on the ring.
struct LaneBlocks {
  const Hosts& hosts;
  uint32_t lane;
  uint32_t lanes;
  uint32_t waves;

  uint32_t step() const { return hosts.shards * lanes * waves; }  // from one host's block to the next one's
  // Of the host that lies so many further round.
  uint32_t At(uint32_t shard, uint32_t distance, uint32_t wave) const {
    return hosts.HostAfter(hosts.host(), distance) * step() + (shard * lanes + lane) * waves + wave;
  }
};

// First the blocks with which the ring begins: they leave as soon as they are summed up.
void SumUp(const LaneBlocks& blocks, PlanWriter* writer) {
  const Hosts& hosts = blocks.hosts;
  for (uint32_t i = 0; i < hosts.count(); ++i) {
    for (uint32_t wave = 0; wave < blocks.waves; ++wave) {
      for (uint32_t shard = 0; shard < hosts.shards; ++shard) {
        const sl_operand_t part = SendBlock(blocks.At(shard, hosts.count() - i, wave));
        if (shard != hosts.index()) Contribute(hosts.Owner(hosts.host(), shard), part, writer);
      }
      if (!hosts.owns()) continue;
      const uint32_t mine = blocks.At(hosts.index(), hosts.count() - i, wave);
      SumOfHost(hosts, SendBlock(mine), RecvBlock(mine), writer);
      if (i != 0) continue;
      writer->Put(hosts.LikeOn(hosts.HostAfter(hosts.host(), 1), hosts.rank), RecvBlock(mine), RecvBlock(mine));
    }
  }
}

// What is complete is handed out while the ring goes on. Each rank takes what it is handed one turn later than it hands
// out, so that owners do not hold each other up; links need room for the waves of two turns.
void RingOfHosts(const LaneBlocks& blocks, PlanWriter* writer) {
  const Hosts& hosts = blocks.hosts;
  const uint32_t next = hosts.LikeOn(hosts.HostAfter(hosts.host(), 1), hosts.rank);
  const uint32_t previous = hosts.LikeOn(hosts.HostAfter(hosts.host(), hosts.count() - 1), hosts.rank);
  const auto back = -static_cast<int32_t>(blocks.step());
  // What an owner does with its blocks of all waves, so far round the ring.
  const auto own = [&](uint32_t distance, int32_t step, auto act) {
    for (uint32_t wave = 0; wave < blocks.waves && hosts.owns(); ++wave) {
      act(RecvBlock(blocks.At(hosts.index(), distance, wave), step));
    }
  };
  const auto hand_out = [&](sl_operand_t part) {
    for (const uint32_t other : hosts.Others()) writer->Put(other, part, part);
  };
  const auto take = [&](uint32_t distance, int32_t step) {
    for (uint32_t wave = 0; wave < blocks.waves; ++wave) {
      for (uint32_t shard = 0; shard < hosts.shards; ++shard) {
        if (shard == hosts.index()) continue;
        Take(hosts.Owner(hosts.host(), shard), RecvBlock(blocks.At(shard, distance, wave), step), writer);
      }
    }
  };
  writer->Repeat(hosts.count() - 2, [&] {
    own(hosts.count() - 1, back, [&](sl_operand_t part) {
      const auto join = [&] { writer->Reduce(part, 0, Inbox(previous), part, Outbox(next)); };
      writer->Relay(previous, next, part, join);
    });
  });
  own(1, 0, [&](sl_operand_t part) {
    const auto complete = [&] { writer->Reduce(part, SL_STEP_FINAL, Inbox(previous), part, part, Outbox(next)); };
    writer->Relay(previous, next, part, complete);
    hand_out(part);
  });
  writer->Repeat(hosts.count() - 2, [&] {
    own(0, back, [&](sl_operand_t part) {
      writer->Relay(previous, next, part, [&] { writer->Copy(part, Inbox(previous), part, Outbox(next)); });
      hand_out(part);
    });
    take(1, back);
  });
  own(2, 0, [&](sl_operand_t part) {
    Take(previous, part, writer);
    hand_out(part);
  });
  take(3, 0);
  take(2, 0);
}

}  // namespace

Work WorkOfRing(const Shape& shape, const sl_op_t& op) {
  const auto bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  const Hosts& hosts = shape.hosts;
  const uint32_t blocks = hosts.shards * hosts.count() * shape.LanesFor(op, hosts.shards * hosts.count());
  const uint32_t waves = shape.WavesFor(op, blocks);
  const uint64_t rounds = shape.CutBlock(op, BlockOf(op.count, blocks * waves)).rounds;
  const uint64_t steps = 2 * (hosts.count() - 1);
  Work work;
  work.local_hops = 2 * rounds;
  work.network_hops = steps * rounds;
  work.local_messages = rounds * waves * 2 * hosts.count() * (hosts.most() - 1);
  work.network_messages = rounds * waves * steps;
  work.local_bytes = 2 * bytes * (hosts.most() - 1) / hosts.shards;
  work.border_bytes = 2 * bytes * (hosts.count() - 1) / hosts.count();
  return work;
}

void AllReduceByRing(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const uint32_t lanes = shape.LanesFor(op, hosts.shards * hosts.count());
  const uint32_t waves = shape.WavesFor(op, hosts.count() * hosts.shards * lanes);
  const uint32_t blocks = hosts.count() * hosts.shards * lanes * waves;
  const uint64_t length = BlockOf(op.count, blocks);
  const sl_geometry_t split = Split(op.count, length);
  sl_plan_desc_t desc = shape.Describe(op, length, blocks, split, split);
  desc.credits = 2 * waves;
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    SumUp({hosts, lane, lanes, waves}, writer);
    RingOfHosts({hosts, lane, lanes, waves}, writer);
  }
}

}  // namespace sl::algo_two_level

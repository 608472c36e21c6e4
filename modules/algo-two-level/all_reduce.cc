// SPDX-License-Identifier: Apache-2.0
//
// All-reduce round a ring: the members of a host sum up, each owner one shard; owners of a shard reduce it round the
// ring of hosts and send it round again (as rings do: every byte of the shard leaves a host 2 (H - 1) / H times);
// owners hand it out.
//
// Blocks: a buffer is cut into hosts * shards * lanes * waves blocks, so that a step along the ring of hosts is a fixed
// stride. The waves of a lane do every part one after the other before the lane goes on to the next part: while one
// crosses the border, the next one is summed up behind it, and the one before is handed out.
#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::SendBlock;

struct sl_algorithm_t::LaneBlocks {
  const sl::algo_two_level::Hosts& hosts;
  uint32_t lane;
  uint32_t lanes;
  uint32_t waves;

  uint32_t step() const { return hosts.shards * lanes * waves; }  // from one host's block to the next one's
  // Of the host that lies so many further round.
  uint32_t At(uint32_t shard, uint32_t distance, uint32_t wave) const {
    return hosts.HostAfter(hosts.host(), distance) * step() + (shard * lanes + lane) * waves + wave;
  }
};

sl::algo_two_level::Work sl_algorithm_t::WorkOfRing(const sl_op_t& op) const {
  const auto bytes = static_cast<double>(op.count * sl::DatatypeBytes(op.datatype));
  const double hosts = hosts_.count();
  const uint32_t blocks = hosts_.shards * hosts_.count() * LanesFor(op, hosts_.shards * hosts_.count());
  const uint32_t waves = WavesFor(op, blocks);
  const uint64_t rounds = CutBlock(op, sl::BlockOf(op.count, blocks * waves)).rounds;
  const uint64_t steps = 2 * (hosts_.count() - 1);
  sl::algo_two_level::Work work;
  work.local_hops = 2 * rounds;
  work.network_hops = steps * rounds;
  work.local_messages = rounds * waves * 2 * hosts_.count() * (hosts_.most() - 1);
  work.network_messages = rounds * waves * steps;
  work.local_bytes = 2 * bytes * (hosts_.most() - 1) / hosts_.shards;
  work.border_bytes = 2 * bytes * (hosts - 1) / hosts;
  return work;
}

void sl_algorithm_t::AllReduce(const sl_op_t& op, sl::PlanWriter* writer) const {
  const uint32_t lanes = LanesFor(op, hosts_.shards * hosts_.count());
  const uint32_t waves = WavesFor(op, hosts_.count() * hosts_.shards * lanes);
  const uint32_t blocks = hosts_.count() * hosts_.shards * lanes * waves;
  const uint64_t length = sl::BlockOf(op.count, blocks);
  const sl_geometry_t split = sl::Split(op.count, length);
  sl_plan_desc_t desc = Describe(op, length, blocks, split, split);
  desc.credits = 2 * waves;
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    SumUp({hosts_, lane, lanes, waves}, writer);
    RingOfHosts({hosts_, lane, lanes, waves}, writer);
  }
}

// First the blocks with which the ring begins: they leave as soon as they are summed up.
void sl_algorithm_t::SumUp(const LaneBlocks& blocks, sl::PlanWriter* writer) const {
  for (uint32_t i = 0; i < hosts_.count(); ++i) {
    for (uint32_t wave = 0; wave < blocks.waves; ++wave) {
      for (uint32_t shard = 0; shard < hosts_.shards; ++shard) {
        const sl_operand_t part = SendBlock(blocks.At(shard, hosts_.count() - i, wave));
        if (shard != hosts_.index()) Contribute(hosts_.Owner(hosts_.host(), shard), part, writer);
      }
      if (!hosts_.owns()) continue;
      const uint32_t mine = blocks.At(hosts_.index(), hosts_.count() - i, wave);
      SumOfHost(SendBlock(mine), RecvBlock(mine), writer);
      if (i != 0) continue;
      writer->Put(hosts_.LikeOn(hosts_.HostAfter(hosts_.host(), 1), hosts_.rank), RecvBlock(mine), RecvBlock(mine));
    }
  }
}

// What is complete is handed out while the ring goes on. Each rank takes what it is handed one turn later than it hands
// out, so that owners do not hold each other up; links need room for the waves of two turns.
void sl_algorithm_t::RingOfHosts(const LaneBlocks& blocks, sl::PlanWriter* writer) const {
  const uint32_t hosts = hosts_.count();
  const uint32_t next = hosts_.LikeOn(hosts_.HostAfter(hosts_.host(), 1), hosts_.rank);
  const uint32_t previous = hosts_.LikeOn(hosts_.HostAfter(hosts_.host(), hosts - 1), hosts_.rank);
  const auto back = -static_cast<int32_t>(blocks.step());
  // What an owner does with its blocks of all waves, so far round the ring.
  const auto own = [&](uint32_t distance, int32_t step, auto act) {
    for (uint32_t wave = 0; wave < blocks.waves && hosts_.owns(); ++wave) {
      act(RecvBlock(blocks.At(hosts_.index(), distance, wave), step));
    }
  };
  const auto hand_out = [&](sl_operand_t part) {
    for (const uint32_t other : hosts_.Others()) writer->Put(other, part, part);
  };
  const auto take = [&](uint32_t distance, int32_t step) {
    for (uint32_t wave = 0; wave < blocks.waves; ++wave) {
      for (uint32_t shard = 0; shard < hosts_.shards; ++shard) {
        if (shard == hosts_.index()) continue;
        Take(hosts_.Owner(hosts_.host(), shard), RecvBlock(blocks.At(shard, distance, wave), step), writer);
      }
    }
  };
  writer->Repeat(hosts - 2, [&] {
    own(hosts - 1, back, [&](sl_operand_t part) {
      const auto join = [&] { writer->Reduce(part, 0, sl::Inbox(previous), part, sl::Outbox(next)); };
      writer->Relay(previous, next, part, join);
    });
  });
  own(1, 0, [&](sl_operand_t part) {
    const auto complete = [&] {
      writer->Reduce(part, SL_STEP_FINAL, sl::Inbox(previous), part, part, sl::Outbox(next));
    };
    writer->Relay(previous, next, part, complete);
    hand_out(part);
  });
  writer->Repeat(hosts - 2, [&] {
    own(0, back, [&](sl_operand_t part) {
      writer->Relay(previous, next, part, [&] { writer->Copy(part, sl::Inbox(previous), part, sl::Outbox(next)); });
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

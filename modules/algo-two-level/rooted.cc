// SPDX-License-Identifier: Apache-2.0
//
// Broadcast and reduce: a shard travels along a binomial tree of hosts, whose root is the host of the operation's root,
// from owner to owner.
#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::ScratchBlock;
using sl::SendBlock;

namespace {

constexpr sl_geometry_t kNothing{0, 0, 0};  // the buffer of an operation that only its root has

// The binomial tree of hosts: place 0 is the root's host, the others follow round; place p hangs below p without its
// lowest bit.
struct HostTree {
  const sl::algo_two_level::Hosts& hosts;
  const uint32_t root_host;

  uint32_t place() const { return (hosts.host() + hosts.count() - root_host) % hosts.count(); }
  // The rank that carries this rank's shard at a place.
  uint32_t OwnerAt(uint32_t place) const { return hosts.Owner(hosts.HostAfter(root_host, place), hosts.index()); }
};

}  // namespace

void sl_algorithm_t::Broadcast(const sl_op_t& op, sl::PlanWriter* writer) const {
  const uint32_t shards = ShardsFor(op);
  const uint32_t lanes = LanesFor(op, shards);
  const uint32_t blocks = lanes * shards;
  const uint64_t length = sl::BlockOf(op.count, blocks);
  const sl_geometry_t split = sl::Split(op.count, length);
  const bool is_root = hosts_.rank == static_cast<uint32_t>(op.root);
  writer->Begin(Describe(op, length, blocks, is_root ? split : kNothing, split));
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    BroadcastLane(static_cast<uint32_t>(op.root), shards, lane, lanes, writer);
  }
}

// The root hands shards to the owners of its host; each owner gets its shard, passes it on to other hosts, then to its
// neighbours.
void sl_algorithm_t::BroadcastLane(uint32_t root, uint32_t shards, uint32_t lane, uint32_t lanes,
                                   sl::PlanWriter* writer) const {
  const uint32_t hosts = hosts_.count();
  const uint32_t own_host = hosts_.host();
  const HostTree tree{hosts_, hosts_.host_of[root]};
  const uint32_t place = tree.place();
  const auto block = [&](uint32_t shard) { return shard * lanes + lane; };
  if (hosts_.rank == root) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const sl_operand_t part = SendBlock(block(shard));
      const uint32_t owner = hosts_.Owner(own_host, shard);
      if (owner != root) writer->Put(owner, part, part);
      writer->Copy(part, part, RecvBlock(block(shard)));
    }
  }
  if (hosts_.index() < shards) {
    const sl_operand_t mine = RecvBlock(block(hosts_.index()));
    uint32_t reach = 1;  // places that this one serves: below its lowest bit
    while (reach < hosts && (place & reach) == 0) reach *= 2;
    if (place != 0) {
      Take(tree.OwnerAt(place - reach), mine, writer);
    } else if (hosts_.rank != root) {
      Take(root, mine, writer);
    }
    for (uint32_t bit = reach / 2; bit != 0; bit /= 2) {
      if (place + bit < hosts) writer->Put(tree.OwnerAt(place + bit), mine, mine);
    }
    for (const uint32_t other : hosts_.Others()) {
      if (other != root) writer->Put(other, mine, mine);
    }
  }
  for (uint32_t shard = 0; shard < shards && hosts_.rank != root; ++shard) {
    if (shard != hosts_.index()) Take(hosts_.Owner(own_host, shard), RecvBlock(block(shard)), writer);
  }
}

void sl_algorithm_t::Reduce(const sl_op_t& op, sl::PlanWriter* writer) const {
  const uint32_t shards = ShardsFor(op);
  const uint32_t lanes = LanesFor(op, shards);
  const uint32_t blocks = lanes * shards;
  const uint64_t length = sl::BlockOf(op.count, blocks);
  const sl_geometry_t split = sl::Split(op.count, length);
  const bool is_root = hosts_.rank == static_cast<uint32_t>(op.root);
  sl_plan_desc_t desc = Describe(op, length, blocks, split, is_root ? split : kNothing);
  desc.scratch = split;
  desc.scratch_bytes = op.count * sl::DatatypeBytes(op.datatype);
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    ReduceLane(static_cast<uint32_t>(op.root), shards, lane, lanes, writer);
  }
}

// The other way round: owners sum up their host, then what the tree brings; the root collects the shards.
void sl_algorithm_t::ReduceLane(uint32_t root, uint32_t shards, uint32_t lane, uint32_t lanes,
                                sl::PlanWriter* writer) const {
  const uint32_t hosts = hosts_.count();
  const uint32_t own_host = hosts_.host();
  const HostTree tree{hosts_, hosts_.host_of[root]};
  const uint32_t place = tree.place();
  const auto block = [&](uint32_t shard) { return shard * lanes + lane; };
  for (uint32_t shard = 0; shard < shards; ++shard) {
    const sl_operand_t part = SendBlock(block(shard));
    if (shard != hosts_.index()) Contribute(hosts_.Owner(own_host, shard), part, writer);
  }
  if (hosts_.index() < shards) {
    const sl_operand_t part = SendBlock(block(hosts_.index()));
    const sl_operand_t sum = ScratchBlock(block(hosts_.index()));
    SumOfHost(part, sum, writer);
    uint32_t bit = 1;
    for (; bit < hosts && (place & bit) == 0; bit *= 2) {
      if (place + bit >= hosts) continue;
      const uint32_t from = tree.OwnerAt(place + bit);
      const bool last = place == 0 && 2 * bit >= hosts;
      writer->Wait(from, part);
      writer->Reduce(part, last ? SL_STEP_FINAL : 0, sum, sl::Inbox(from),
                     last && hosts_.rank == root ? RecvBlock(block(hosts_.index())) : sum);
      writer->Release(from, part);
    }
    if (place != 0) {
      writer->Put(tree.OwnerAt(place - bit), part, sum);
    } else if (hosts_.rank != root) {
      writer->Put(root, part, sum);
    }
  }
  for (uint32_t shard = 0; shard < shards && hosts_.rank == root; ++shard) {
    if (shard != hosts_.index()) Take(hosts_.Owner(own_host, shard), RecvBlock(block(shard)), writer);
  }
}

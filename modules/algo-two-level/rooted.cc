// SPDX-License-Identifier: Apache-2.0
//
// Broadcast and reduce: a shard travels along a binomial tree of hosts, whose root is the host of the operation's root,
// from owner to owner.
#include "plans.h"
#include "sdk/datatype.h"
#include "steps.h"

namespace sl::algo_two_level {
namespace {

constexpr sl_geometry_t kNothing{0, 0, 0};  // the buffer of an operation that only its root has

// What one lane carries along the binomial tree of hosts: place 0 is the root's host, the others follow round; place p
// hangs below p without its lowest bit.
struct TreeLane {
  const Hosts& hosts;
  uint32_t root;
  uint32_t shards;
  uint32_t lanes;
  uint32_t lane;

  uint32_t Block(uint32_t shard) const { return shard * lanes + lane; }
  uint32_t place() const { return (hosts.host() + hosts.count() - hosts.host_of[root]) % hosts.count(); }
  // The rank that carries this rank's shard at a place.
  uint32_t OwnerAt(uint32_t at) const { return hosts.Owner(hosts.HostAfter(hosts.host_of[root], at), hosts.index()); }
};

// The root hands shards to the owners of its host; each owner gets its shard, passes it on to other hosts, then to its
// neighbours.
void BroadcastLane(const TreeLane& tree, PlanWriter* writer) {
  const Hosts& hosts = tree.hosts;
  const uint32_t own_host = hosts.host();
  const uint32_t root = tree.root;
  const uint32_t place = tree.place();
  if (hosts.rank == root) {
    for (uint32_t shard = 0; shard < tree.shards; ++shard) {
      const sl_operand_t part = SendBlock(tree.Block(shard));
      const uint32_t owner = hosts.Owner(own_host, shard);
      if (owner != root) writer->Put(owner, part, part);
      writer->Copy(part, part, RecvBlock(tree.Block(shard)));
    }
  }
  if (hosts.index() < tree.shards) {
    const sl_operand_t mine = RecvBlock(tree.Block(hosts.index()));
    uint32_t reach = 1;  // places that this one serves: below its lowest bit
    while (reach < hosts.count() && (place & reach) == 0) reach *= 2;
    if (place != 0) {
      Take(tree.OwnerAt(place - reach), mine, writer);
    } else if (hosts.rank != root) {
      Take(root, mine, writer);
    }
    for (uint32_t bit = reach / 2; bit != 0; bit /= 2) {
      if (place + bit < hosts.count()) writer->Put(tree.OwnerAt(place + bit), mine, mine);
    }
    for (const uint32_t other : hosts.Others()) {
      if (other != root) writer->Put(other, mine, mine);
    }
  }
  for (uint32_t shard = 0; shard < tree.shards && hosts.rank != root; ++shard) {
    if (shard != hosts.index()) Take(hosts.Owner(own_host, shard), RecvBlock(tree.Block(shard)), writer);
  }
}

// The other way round: owners sum up their host, then what the tree brings; the root collects the shards.
void ReduceLane(const TreeLane& tree, PlanWriter* writer) {
  const Hosts& hosts = tree.hosts;
  const uint32_t own_host = hosts.host();
  const uint32_t root = tree.root;
  const uint32_t place = tree.place();
  for (uint32_t shard = 0; shard < tree.shards; ++shard) {
    const sl_operand_t part = SendBlock(tree.Block(shard));
    if (shard != hosts.index()) Contribute(hosts.Owner(own_host, shard), part, writer);
  }
  if (hosts.index() < tree.shards) {
    const sl_operand_t part = SendBlock(tree.Block(hosts.index()));
    const sl_operand_t sum = ScratchBlock(tree.Block(hosts.index()));
    SumOfHost(hosts, part, sum, writer);
    uint32_t bit = 1;
    for (; bit < hosts.count() && (place & bit) == 0; bit *= 2) {
      if (place + bit >= hosts.count()) continue;
      const uint32_t from = tree.OwnerAt(place + bit);
      const bool last = place == 0 && 2 * bit >= hosts.count();
      writer->Wait(from, part);
      writer->Reduce(part, last ? SL_STEP_FINAL : 0, sum, Inbox(from),
                     last && hosts.rank == root ? RecvBlock(tree.Block(hosts.index())) : sum);
      writer->Release(from, part);
    }
    if (place != 0) {
      writer->Put(tree.OwnerAt(place - bit), part, sum);
    } else if (hosts.rank != root) {
      writer->Put(root, part, sum);
    }
  }
  for (uint32_t shard = 0; shard < tree.shards && hosts.rank == root; ++shard) {
    if (shard != hosts.index()) Take(hosts.Owner(own_host, shard), RecvBlock(tree.Block(shard)), writer);
  }
}

// How a buffer that has one root is cut.
struct Cut {
  Cut(const Shape& shape, const sl_op_t& op)
      : root(static_cast<uint32_t>(op.root)),
        is_root(shape.hosts.rank == root),
        shards(shape.ShardsFor(op)),
        lanes(shape.LanesFor(op, shards)),
        blocks(lanes * shards),
        length(BlockOf(op.count, blocks)),
        split(Split(op.count, length)) {}

  const uint32_t root;
  const bool is_root;
  const uint32_t shards;
  const uint32_t lanes;
  const uint32_t blocks;
  const uint64_t length;  // of a block, in elements
  const sl_geometry_t split;
};

}  // namespace

void Broadcast(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Cut cut(shape, op);
  writer->Begin(shape.Describe(op, cut.length, cut.blocks, cut.is_root ? cut.split : kNothing, cut.split));
  for (uint32_t lane = 0; lane < cut.lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    BroadcastLane({shape.hosts, cut.root, cut.shards, cut.lanes, lane}, writer);
  }
}

void Reduce(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Cut cut(shape, op);
  sl_plan_desc_t desc = shape.Describe(op, cut.length, cut.blocks, cut.split, cut.is_root ? cut.split : kNothing);
  desc.scratch = cut.split;
  desc.scratch_bytes = op.count * DatatypeBytes(op.datatype);
  writer->Begin(desc);
  for (uint32_t lane = 0; lane < cut.lanes; ++lane) {
    if (lane != 0) writer->NextLane(lane);
    ReduceLane({shape.hosts, cut.root, cut.shards, cut.lanes, lane}, writer);
  }
}

}  // namespace sl::algo_two_level

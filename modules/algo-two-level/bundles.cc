// SPDX-License-Identifier: Apache-2.0
//
// All-to-all, gather and scatter: blocks that are going the same way share a message. No byte of these operations can
// be saved at a host's border, but where blocks are short the number of messages is what costs.
#include "bundle.h"
#include "plans.h"
#include "sdk/datatype.h"

namespace sl::algo_two_level {

// Every rank has one like on each other host that brings it what that host's ranks have for it: first the ranks of a
// host hand each other what each has to carry, what they have for each other among it; then likes exchange.
void AllToAll(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const auto members = static_cast<uint32_t>(hosts.members[hosts.host()].size());
  const std::vector<uint32_t> carried = hosts.CarriedBy(hosts.index());  // this rank is the last of them
  const auto departures = static_cast<uint32_t>(carried.size() - 1);
  // Scratch: room to pack and unpack a bundle, then what leaves, a bundle for each rank that is carried to.
  const uint32_t most = hosts.LongestBundle();
  const sl_geometry_t all = Blocks(op.count, hosts.size);
  const Bundler bundles(op.count, most + departures * members, writer);
  bundles.Begin(hosts.size, most, DatatypeBytes(op.datatype), all, all);
  const auto place = [&](uint32_t i, uint32_t from) {
    return i == departures ? RecvBlock(from) : ScratchBlock(most + i * members + hosts.index_of[from]);
  };
  // In place, what is sent is read before anything of another rank is written.
  const std::vector<uint32_t> others = hosts.Others();
  for (const uint32_t other : others) bundles.PutBlocksOf(hosts.CarriedBy(hosts.index_of[other]), other);
  for (uint32_t i = 0; i <= departures; ++i) bundles.Copy(SendBlock(carried[i]), place(i, hosts.rank));
  for (const uint32_t other : others) {
    bundles.Take(other, ScratchBlock(0), carried.size());
    for (uint32_t i = 0; i <= departures; ++i) bundles.Copy(ScratchBlock(i), place(i, other));
  }
  for (uint32_t i = 0; i < departures; ++i) bundles.Put(carried[i], ScratchBlock(most + i * members), members);
  for (uint32_t i = 1; i < hosts.count(); ++i) {
    const uint32_t at = hosts.HostAfter(hosts.host(), i);
    bundles.TakeBlocksOf(hosts.members[at], hosts.LikeOn(at, hosts.rank));
  }
}

// The root's like on each other host collects that host's blocks and sends them on together.
void Gather(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const auto root = static_cast<uint32_t>(op.root);
  const std::vector<uint32_t>& members = hosts.members[hosts.host()];
  const Bundler bundles(op.count, hosts.most(), writer);
  bundles.Begin(hosts.size, hosts.most(), DatatypeBytes(op.datatype), Blocks(op.count, 1),
                Blocks(op.count, hosts.rank == root ? hosts.size : 0));
  if (hosts.rank == root) {
    bundles.Copy(SendBlock(0), RecvBlock(root));
    for (const uint32_t other : hosts.Others()) bundles.Take(other, RecvBlock(other));
    for (uint32_t i = 1; i < hosts.count(); ++i) {
      const uint32_t at = hosts.HostAfter(hosts.host(), i);
      bundles.TakeBlocksOf(hosts.members[at], hosts.LikeOn(at, root));
    }
    return;
  }
  const uint32_t like = hosts.LikeOn(hosts.host(), root);
  if (like != hosts.rank || members.size() == 1) return bundles.Put(like == hosts.rank ? root : like, SendBlock(0));
  bundles.Copy(SendBlock(0), ScratchBlock(hosts.index()));
  for (const uint32_t other : hosts.Others()) bundles.Take(other, ScratchBlock(hosts.index_of[other]));
  bundles.Put(root, ScratchBlock(0), members.size());
}

// The other way round. What crosses a border leaves first.
void Scatter(const Shape& shape, const sl_op_t& op, PlanWriter* writer) {
  const Hosts& hosts = shape.hosts;
  const auto root = static_cast<uint32_t>(op.root);
  const std::vector<uint32_t>& members = hosts.members[hosts.host()];
  const Bundler bundles(op.count, hosts.most(), writer);
  bundles.Begin(hosts.size, hosts.most(), DatatypeBytes(op.datatype),
                Blocks(op.count, hosts.rank == root ? hosts.size : 0), Blocks(op.count, 1));
  if (hosts.rank == root) {
    for (uint32_t i = 1; i < hosts.count(); ++i) {
      const uint32_t at = hosts.HostAfter(hosts.host(), i);
      bundles.PutBlocksOf(hosts.members[at], hosts.LikeOn(at, root));
    }
    for (const uint32_t other : hosts.Others()) bundles.Put(other, SendBlock(other));
    bundles.Copy(SendBlock(root), RecvBlock(0));
    return;
  }
  const uint32_t like = hosts.LikeOn(hosts.host(), root);
  if (like != hosts.rank || members.size() == 1) return bundles.Take(like == hosts.rank ? root : like, RecvBlock(0));
  bundles.Take(root, ScratchBlock(0), members.size());
  for (const uint32_t other : hosts.Others()) bundles.Put(other, ScratchBlock(hosts.index_of[other]));
  bundles.Copy(ScratchBlock(hosts.index()), RecvBlock(0));
}

}  // namespace sl::algo_two_level

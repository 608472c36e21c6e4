// SPDX-License-Identifier: Apache-2.0
//
// All-to-all, gather and scatter: blocks that are going the same way share a message. No byte of these operations can
// be saved at a host's border, but where blocks are short the number of messages is what costs.
#include "bundle.h"

#include "algorithm.h"
#include "sdk/datatype.h"

using sl::RecvBlock;
using sl::ScratchBlock;
using sl::SendBlock;
using sl::algo_two_level::Bundler;

// Every rank has one like on each other host that brings it what that host's ranks have for it: first the ranks of a
// host hand each other what each has to carry, what they have for each other among it; then likes exchange.
void sl_algorithm_t::AllToAll(const sl_op_t& op, sl::PlanWriter* writer) const {
  const auto members = static_cast<uint32_t>(hosts_.members[hosts_.host()].size());
  const std::vector<uint32_t> carried = hosts_.CarriedBy(hosts_.index());  // this rank is the last of them
  const auto departures = static_cast<uint32_t>(carried.size() - 1);
  // Scratch: room to pack and unpack a bundle, then what leaves, a bundle for each rank that is carried to.
  const uint32_t most = hosts_.LongestBundle();
  const sl_geometry_t all = sl::Blocks(op.count, hosts_.size);
  const Bundler bundles(op.count, most + departures * members, writer);
  bundles.Begin(hosts_.size, most, sl::DatatypeBytes(op.datatype), all, all);
  const auto place = [&](uint32_t i, uint32_t from) {
    return i == departures ? RecvBlock(from) : ScratchBlock(most + i * members + hosts_.index_of[from]);
  };
  // In place, what is sent is read before anything of another rank is written.
  const std::vector<uint32_t> others = hosts_.Others();
  for (const uint32_t other : others) bundles.PutBlocksOf(hosts_.CarriedBy(hosts_.index_of[other]), other);
  for (uint32_t i = 0; i <= departures; ++i) bundles.Copy(SendBlock(carried[i]), place(i, hosts_.rank));
  for (const uint32_t other : others) {
    bundles.Take(other, ScratchBlock(0), carried.size());
    for (uint32_t i = 0; i <= departures; ++i) bundles.Copy(ScratchBlock(i), place(i, other));
  }
  for (uint32_t i = 0; i < departures; ++i) bundles.Put(carried[i], ScratchBlock(most + i * members), members);
  for (uint32_t i = 1; i < hosts_.count(); ++i) {
    const uint32_t at = hosts_.HostAfter(hosts_.host(), i);
    bundles.TakeBlocksOf(hosts_.members[at], hosts_.LikeOn(at, hosts_.rank));
  }
}

// The root's like on each other host collects that host's blocks and sends them on together.
void sl_algorithm_t::Gather(const sl_op_t& op, sl::PlanWriter* writer) const {
  const auto root = static_cast<uint32_t>(op.root);
  const std::vector<uint32_t>& members = hosts_.members[hosts_.host()];
  const Bundler bundles(op.count, hosts_.most(), writer);
  bundles.Begin(hosts_.size, hosts_.most(), sl::DatatypeBytes(op.datatype), sl::Blocks(op.count, 1),
                sl::Blocks(op.count, hosts_.rank == root ? hosts_.size : 0));
  if (hosts_.rank == root) {
    bundles.Copy(SendBlock(0), RecvBlock(root));
    for (const uint32_t other : hosts_.Others()) bundles.Take(other, RecvBlock(other));
    for (uint32_t i = 1; i < hosts_.count(); ++i) {
      const uint32_t at = hosts_.HostAfter(hosts_.host(), i);
      bundles.TakeBlocksOf(hosts_.members[at], hosts_.LikeOn(at, root));
    }
    return;
  }
  const uint32_t like = hosts_.LikeOn(hosts_.host(), root);
  if (like != hosts_.rank || members.size() == 1) return bundles.Put(like == hosts_.rank ? root : like, SendBlock(0));
  bundles.Copy(SendBlock(0), ScratchBlock(hosts_.index()));
  for (const uint32_t other : hosts_.Others()) bundles.Take(other, ScratchBlock(hosts_.index_of[other]));
  bundles.Put(root, ScratchBlock(0), members.size());
}

// The other way round. What crosses a border leaves first.
void sl_algorithm_t::Scatter(const sl_op_t& op, sl::PlanWriter* writer) const {
  const auto root = static_cast<uint32_t>(op.root);
  const std::vector<uint32_t>& members = hosts_.members[hosts_.host()];
  const Bundler bundles(op.count, hosts_.most(), writer);
  bundles.Begin(hosts_.size, hosts_.most(), sl::DatatypeBytes(op.datatype),
                sl::Blocks(op.count, hosts_.rank == root ? hosts_.size : 0), sl::Blocks(op.count, 1));
  if (hosts_.rank == root) {
    for (uint32_t i = 1; i < hosts_.count(); ++i) {
      const uint32_t at = hosts_.HostAfter(hosts_.host(), i);
      bundles.PutBlocksOf(hosts_.members[at], hosts_.LikeOn(at, root));
    }
    for (const uint32_t other : hosts_.Others()) bundles.Put(other, SendBlock(other));
    bundles.Copy(SendBlock(root), RecvBlock(0));
    return;
  }
  const uint32_t like = hosts_.LikeOn(hosts_.host(), root);
  if (like != hosts_.rank || members.size() == 1) return bundles.Take(like == hosts_.rank ? root : like, RecvBlock(0));
  bundles.Take(root, ScratchBlock(0), members.size());
  for (const uint32_t other : hosts_.Others()) bundles.Put(other, ScratchBlock(hosts_.index_of[other]));
  bundles.Copy(ScratchBlock(hosts_.index()), RecvBlock(0));
}

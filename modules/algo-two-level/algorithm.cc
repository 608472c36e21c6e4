// SPDX-License-Identifier: Apache-2.0
#include "algorithm.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "sdk/datatype.h"

namespace plans = sl::algo_two_level;
using plans::Hosts;
using plans::Shape;
using plans::Work;

namespace {

uint64_t Log2Up(uint64_t value) {
  uint64_t bits = 0;
  while ((uint64_t{1} << bits) < value) ++bits;
  return bits;
}

}  // namespace

sl_algorithm_t::sl_algorithm_t(const sl_host_t* its_host, const sl_comm_shape_t& shape, const sl::LinkCost& cost)
    : host(its_host), shape_(Shape::Of(shape)), cost_(cost) {}

const char* sl_algorithm_t::Refuses(const sl_op_t& op) const {
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE_SCATTER:
    case SL_OP_BROADCAST:
    case SL_OP_REDUCE:
    case SL_OP_ALL_TO_ALL:
    case SL_OP_GATHER:
    case SL_OP_SCATTER:
      break;
    default:
      return "two ranks exchange directly";
  }
  if (shape_.hosts.count() < 2) return "all ranks are on one host";
  if (shape_.hosts.most() < 2) return "every host has one rank";
  if (op.kind == SL_OP_REDUCE_SCATTER && shape_.link_slots != 0 && shape_.link_slots < shape_.Incast()) {
    return "hosts are too uneven for so few slots of a link";
  }
  if (op.count * sl::DatatypeBytes(op.datatype) * BundledBlocks(op.kind) > shape_.chunk_bytes) {
    return "blocks fill chunks of their own: none can share one";
  }
  return nullptr;
}

uint32_t sl_algorithm_t::BundledBlocks(sl_op_kind_t kind) const {
  if (kind == SL_OP_ALL_TO_ALL) return shape_.hosts.LongestBundle();
  return kind == SL_OP_GATHER || kind == SL_OP_SCATTER ? shape_.hosts.most() : 0;
}

// In bytes and hops of the slowest rank. A host's own sums and copies go through its owners side by side.
Work sl_algorithm_t::WorkOf(const sl_op_t& op) const {
  const auto bytes = static_cast<double>(op.count * sl::DatatypeBytes(op.datatype));
  const Hosts& hosts = shape_.hosts;
  const double ranks = hosts.size;
  const double most = hosts.most();
  Work work;
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      return Exchanges(op) ? plans::WorkOfExchange(shape_, op) : plans::WorkOfRing(shape_, op);
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE_SCATTER: {
      const uint64_t rounds = shape_.CutBlock(op, op.count).rounds;
      // A reduce-scatter's blocks end at an owner, unless hosts are uneven.
      work.local_hops = (op.kind == SL_OP_ALL_GATHER || shape_.Incast() > 1 ? 2 : 1) * rounds;
      work.network_hops = rounds;
      work.local_messages = rounds * 2 * hosts.most();
      work.network_messages = rounds * sl::DivideUp(hosts.size - hosts.shards, hosts.shards);
      work.local_bytes = bytes * ranks * (most - 1) / hosts.shards;
      work.border_bytes = bytes * (op.kind == SL_OP_ALL_GATHER ? most * (hosts.count() - 1) : ranks - most);
      return work;
    }
    case SL_OP_ALL_TO_ALL:
      work.local_hops = 1;
      work.network_hops = 1;
      work.local_messages = hosts.most() - 1;
      work.network_messages = hosts.LongestBundle() - 1;
      work.local_bytes = bytes * (ranks + most);
      work.border_bytes = bytes * most * (ranks - most);
      return work;
    case SL_OP_GATHER:
    case SL_OP_SCATTER:
      work.local_hops = 1;
      work.network_hops = 1;
      work.local_messages = hosts.most() - 1;
      work.network_messages = hosts.count() - 1;
      work.local_bytes = bytes * most;
      work.border_bytes = bytes * (ranks - static_cast<double>(hosts.shards));
      return work;
    default: {
      const uint32_t shards = shape_.ShardsFor(op);
      const uint64_t rounds = shape_.CutBlock(op, sl::BlockOf(op.count, shards * shape_.LanesFor(op, shards))).rounds;
      const uint64_t depth = Log2Up(hosts.count());
      work.local_hops = 2;
      work.network_hops = depth + rounds - std::min<uint64_t>(rounds, 1);
      work.local_messages = rounds * 2 * hosts.most();
      work.network_messages = rounds * depth;
      work.local_bytes = 2 * bytes;
      work.border_bytes = bytes * static_cast<double>(depth);
      return work;
    }
  }
}

uint64_t sl_algorithm_t::TimeOf(const Work& work) const {
  const double moving = work.local_bytes / static_cast<double>(cost_.bytes_per_second) +
                        work.border_bytes / static_cast<double>(cost_.network_bytes_per_second);
  return work.local_hops * cost_.latency_ns + work.network_hops * cost_.network_latency_ns +
         work.local_messages * sl::kMessageNs + work.network_messages * cost_.network_message_ns +
         static_cast<uint64_t>(moving * 1e9);
}

bool sl_algorithm_t::Exchanges(const sl_op_t& op) const {
  return shape_.link_slots == 1 || TimeOf(plans::WorkOfExchange(shape_, op)) <= TimeOf(plans::WorkOfRing(shape_, op));
}

sl_status_t sl_algorithm_t::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->run = SL_RUN_PLAN;
  out->time_ns = 0;
  out->processors = 0;
  out->scratch_bytes = 0;
  out->determinism = sl::HasReduction(op.kind) ? SL_DETERMINISM_RANK : SL_DETERMINISM_WORLD_SIZE;
  if (const char* reason = Refuses(op); reason != nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return SL_ERR_UNSUPPORTED;
  }
  const Work work = WorkOf(op);
  out->time_ns = TimeOf(work);
  const uint64_t element = sl::DatatypeBytes(op.datatype);
  const bool scratch = op.kind == SL_OP_ALL_REDUCE ? Exchanges(op) && shape_.hosts.count() > 2
                                                   : op.kind == SL_OP_REDUCE_SCATTER || op.kind == SL_OP_REDUCE;
  if (scratch) out->scratch_bytes = op.count * element;
  std::snprintf(out->reason, sizeof(out->reason),
                "%u hosts: %" PRIu64 " network hops, %" PRIu64 " messages and %.0f bytes over a border",
                shape_.hosts.count(), work.network_hops, work.network_messages, work.border_bytes);
  return SL_OK;
}

sl::Status sl_algorithm_t::Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const {
  if (const char* reason = Refuses(op); reason != nullptr) return {SL_ERR_UNSUPPORTED, reason};
  sl::PlanWriter writer(ops, builder);
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      if (Exchanges(op)) {
        plans::AllReduceByExchange(shape_, op, &writer);
      } else {
        plans::AllReduceByRing(shape_, op, &writer);
      }
      break;
    case SL_OP_ALL_GATHER:
      plans::AllGather(shape_, op, &writer);
      break;
    case SL_OP_REDUCE_SCATTER:
      plans::ReduceScatter(shape_, op, &writer);
      break;
    case SL_OP_BROADCAST:
      plans::Broadcast(shape_, op, &writer);
      break;
    case SL_OP_ALL_TO_ALL:
      plans::AllToAll(shape_, op, &writer);
      break;
    case SL_OP_GATHER:
      plans::Gather(shape_, op, &writer);
      break;
    case SL_OP_SCATTER:
      plans::Scatter(shape_, op, &writer);
      break;
    default:
      plans::Reduce(shape_, op, &writer);
  }
  return sl::Status(writer.status());
}

// SPDX-License-Identifier: Apache-2.0
#include "algorithm.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "sdk/datatype.h"

using sl::algo_two_level::Hosts;
using sl::algo_two_level::Work;

namespace {

uint64_t Log2Up(uint64_t value) {
  uint64_t bits = 0;
  while ((uint64_t{1} << bits) < value) ++bits;
  return bits;
}

}  // namespace

sl_algorithm_t::sl_algorithm_t(const sl_host_t* its_host, const sl_comm_shape_t& shape, const sl::LinkCost& cost)
    : host(its_host),
      hosts_(Hosts::Of(shape)),
      cost_(cost),
      chunk_bytes_(shape.link_chunk_bytes),
      link_lanes_(shape.lanes),
      link_slots_(shape.link_slots) {}

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
  if (hosts_.count() < 2) return "all ranks are on one host";
  if (hosts_.most() < 2) return "every host has one rank";
  if (op.kind == SL_OP_REDUCE_SCATTER && link_slots_ != 0 && link_slots_ < Incast()) {
    return "hosts are too uneven for so few slots of a link";
  }
  if (op.count * sl::DatatypeBytes(op.datatype) * BundledBlocks(op.kind) > chunk_bytes_) {
    return "blocks fill chunks of their own: none can share one";
  }
  return nullptr;
}

uint32_t sl_algorithm_t::BundledBlocks(sl_op_kind_t kind) const {
  if (kind == SL_OP_ALL_TO_ALL) return hosts_.LongestBundle();
  return kind == SL_OP_GATHER || kind == SL_OP_SCATTER ? hosts_.most() : 0;
}

// In bytes and hops of the slowest rank. A host's own sums and copies go through its owners side by side.
Work sl_algorithm_t::WorkOf(const sl_op_t& op) const {
  const auto bytes = static_cast<double>(op.count * sl::DatatypeBytes(op.datatype));
  const double hosts = hosts_.count();
  const double ranks = hosts_.size;
  const double most = hosts_.most();
  Work work;
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      return Exchanges(op) ? WorkOfExchange(op) : WorkOfRing(op);
    case SL_OP_ALL_GATHER:
    case SL_OP_REDUCE_SCATTER: {
      const uint64_t rounds = CutBlock(op, op.count).rounds;
      // A reduce-scatter's blocks end at an owner, unless hosts are uneven.
      work.local_hops = (op.kind == SL_OP_ALL_GATHER || Incast() > 1 ? 2 : 1) * rounds;
      work.network_hops = rounds;
      work.local_messages = rounds * 2 * hosts_.most();
      work.network_messages = rounds * sl::DivideUp(hosts_.size - hosts_.shards, hosts_.shards);
      work.local_bytes = bytes * ranks * (most - 1) / hosts_.shards;
      work.border_bytes = bytes * (op.kind == SL_OP_ALL_GATHER ? most * (hosts - 1) : ranks - most);
      return work;
    }
    case SL_OP_ALL_TO_ALL:
      work.local_hops = 1;
      work.network_hops = 1;
      work.local_messages = hosts_.most() - 1;
      work.network_messages = hosts_.LongestBundle() - 1;
      work.local_bytes = bytes * (ranks + most);
      work.border_bytes = bytes * most * (ranks - most);
      return work;
    case SL_OP_GATHER:
    case SL_OP_SCATTER:
      work.local_hops = 1;
      work.network_hops = 1;
      work.local_messages = hosts_.most() - 1;
      work.network_messages = hosts_.count() - 1;
      work.local_bytes = bytes * most;
      work.border_bytes = bytes * (ranks - static_cast<double>(hosts_.shards));
      return work;
    default: {
      const uint32_t shards = ShardsFor(op);
      const uint64_t rounds = CutBlock(op, sl::BlockOf(op.count, shards * LanesFor(op, shards))).rounds;
      const uint64_t depth = Log2Up(hosts_.count());
      work.local_hops = 2;
      work.network_hops = depth + rounds - std::min<uint64_t>(rounds, 1);
      work.local_messages = rounds * 2 * hosts_.most();
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
  return link_slots_ == 1 || TimeOf(WorkOfExchange(op)) <= TimeOf(WorkOfRing(op));
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
  const bool scratch = op.kind == SL_OP_ALL_REDUCE ? Exchanges(op) && hosts_.count() > 2
                                                   : op.kind == SL_OP_REDUCE_SCATTER || op.kind == SL_OP_REDUCE;
  if (scratch) out->scratch_bytes = op.count * element;
  std::snprintf(out->reason, sizeof(out->reason),
                "%u hosts: %" PRIu64 " network hops, %" PRIu64 " messages and %.0f bytes over a border", hosts_.count(),
                work.network_hops, work.network_messages, work.border_bytes);
  return SL_OK;
}

sl::Status sl_algorithm_t::Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const {
  if (const char* reason = Refuses(op); reason != nullptr) return {SL_ERR_UNSUPPORTED, reason};
  sl::PlanWriter writer(ops, builder);
  switch (op.kind) {
    case SL_OP_ALL_REDUCE:
      if (Exchanges(op)) {
        Exchange(op, &writer);
      } else {
        AllReduce(op, &writer);
      }
      break;
    case SL_OP_ALL_GATHER:
      AllGather(op, &writer);
      break;
    case SL_OP_REDUCE_SCATTER:
      ReduceScatter(op, &writer);
      break;
    case SL_OP_BROADCAST:
      Broadcast(op, &writer);
      break;
    case SL_OP_ALL_TO_ALL:
      AllToAll(op, &writer);
      break;
    case SL_OP_GATHER:
      Gather(op, &writer);
      break;
    case SL_OP_SCATTER:
      Scatter(op, &writer);
      break;
    default:
      Reduce(op, &writer);
  }
  return sl::Status(writer.status());
}

sl::Pieces sl_algorithm_t::CutBlock(const sl_op_t& op, uint64_t length) const {
  return sl::CutEvenly(length, 1, sl::LongestChunk(chunk_bytes_, sl::DatatypeBytes(op.datatype)));
}

sl_plan_desc_t sl_algorithm_t::Describe(const sl_op_t& op, uint64_t length, uint32_t blocks, const sl_geometry_t& send,
                                        const sl_geometry_t& recv) const {
  return sl::DescribePlan(blocks, CutBlock(op, length), send, recv);
}

uint32_t sl_algorithm_t::ShardsFor(const sl_op_t& op) const {
  constexpr uint64_t kShardBytes = 16384;
  const uint64_t bytes = op.count * sl::DatatypeBytes(op.datatype);
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / kShardBytes, 1, hosts_.shards));
}

uint32_t sl_algorithm_t::LanesFor(const sl_op_t& op, uint32_t blocks) const {
  const uint64_t bytes = op.count * sl::DatatypeBytes(op.datatype);
  return bytes / blocks >= 2 * chunk_bytes_ ? std::min(link_lanes_, 2u) : 1;
}

uint32_t sl_algorithm_t::WavesFor(const sl_op_t& op, uint32_t blocks) const {
  constexpr uint64_t kMost = 3;
  const uint64_t chunks = op.count * sl::DatatypeBytes(op.datatype) / blocks / chunk_bytes_;
  const uint64_t room = link_slots_ / 2;
  return static_cast<uint32_t>(std::clamp<uint64_t>(std::min(chunks, room), 1, kMost));
}

uint32_t sl_algorithm_t::Incast() const { return static_cast<uint32_t>(sl::DivideUp(hosts_.most(), hosts_.shards)); }

uint32_t sl_algorithm_t::HostsAhead() const { return std::clamp(link_slots_ / Incast(), 1u, hosts_.count()); }

void sl_algorithm_t::Contribute(uint32_t to, sl_operand_t send, sl::PlanWriter* writer) const {
  writer->Reserve(to, send);
  writer->Reduce(send, SL_STEP_A_RAW, send, sl::kNoOperand, sl::Outbox(to));
  writer->Put(to, send);
}

void sl_algorithm_t::SumOfHost(sl_operand_t send, sl_operand_t into, sl::PlanWriter* writer) const {
  const std::vector<uint32_t> others = hosts_.Others();
  if (others.empty()) writer->Reduce(send, SL_STEP_A_RAW, send, sl::kNoOperand, into);
  for (size_t i = 0; i < others.size(); ++i) {
    writer->Wait(others[i], send);
    writer->Reduce(send, i == 0 ? SL_STEP_A_RAW : 0, i == 0 ? send : into, sl::Inbox(others[i]), into);
    writer->Release(others[i], send);
  }
}

void sl_algorithm_t::Take(uint32_t from, sl_operand_t into, sl::PlanWriter* writer) const {
  writer->Wait(from, into);
  writer->Copy(into, sl::Inbox(from), into);
  writer->Release(from, into);
}

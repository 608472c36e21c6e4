// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-copy/algorithm.h"

#include <algorithm>
#include <cstdio>

#include "sdk/datatype.h"

namespace sl::algo_copy {

// One end of a copy.
struct Place {
  uint32_t rank;
  uint32_t buffer;
  uint64_t offset;
};

// Counts all copies, and writes those that there is room for.
class CopyWriter {
 public:
  explicit CopyWriter(std::span<sl_copy_t> room) : room_(room) {}

  void Add(uint32_t phase, const Place& from, const Place& to, uint64_t bytes) {
    if (count_ < room_.size()) {
      room_[count_] = {sizeof(sl_copy_t), phase,     from.rank, from.buffer, from.offset,
                       to.rank,           to.buffer, to.offset, bytes};
    }
    ++count_;
  }
  uint32_t count() const { return count_; }

 private:
  const std::span<sl_copy_t> room_;
  uint32_t count_ = 0;
};

namespace {

// Two gates of all ranks, of two words and three for each peer, together with what copies take to begin: 2 H200 took 18
// us at 2 MiB and 29 at 128 MiB for all but the bytes. Of more peers the words alone were measured: a gate of two ranks
// takes a stream 5 us, one of eight 20.
constexpr uint64_t kStartNs = 20'000;
constexpr uint64_t kPeerNs = 7'000;
constexpr uint64_t kMiddleNs = 5'000;  // the gate between two phases, but for its peers
// What one copy engine of an H200 stores into one peer.
constexpr uint64_t kBytesPerUs = 390'000;
// Parts of a broadcast begin where copies are quick.
constexpr uint64_t kPartAlignment = 512;

// Callers of earlier releases know no symmetric buffers.
bool Has(const sl_op_t& op, uint32_t symmetric) {
  return SL_HAS(&op, sl_op_t, symmetric) && (op.symmetric & symmetric) != 0;
}

struct Range {
  uint64_t begin;
  uint64_t bytes;
};

Range PartOf(uint64_t bytes, uint32_t part, uint32_t parts) {
  const uint64_t even = (bytes + parts - 1) / parts;
  const uint64_t length = (even + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  const uint64_t begin = std::min(bytes, part * length);
  return {begin, std::min(length, bytes - begin)};
}

uint64_t MoveNs(uint64_t bytes) { return static_cast<uint64_t>(static_cast<double>(bytes) * 1000 / kBytesPerUs); }

}  // namespace
}  // namespace sl::algo_copy

using sl::algo_copy::CopyWriter;
using sl::algo_copy::kMiddleNs;
using sl::algo_copy::kPeerNs;
using sl::algo_copy::kStartNs;
using sl::algo_copy::MoveNs;
using sl::algo_copy::PartOf;

bool sl_algorithm_t::IsAskedFor(const sl_op_t& op) const {
  sl_op_settings_t wanted = {};
  wanted.struct_size = sizeof wanted;
  const bool has_settings = settings_ops_ != nullptr && SL_HAS(&op, sl_op_t, settings) && op.settings != 0;
  if (!has_settings || settings_ops_->get(settings_, op.settings, &wanted) != SL_OK) return is_asked_for_;
  return wanted.processor_free != 0;
}

const char* sl_algorithm_t::Refuses(const sl_op_t& op) const {
  // Of these one rank may be in place and the others not, which know nothing of it: programs that ask for copies obey
  // their rules, others need not.
  if ((op.kind == SL_OP_SCATTER || op.kind == SL_OP_GATHER) && !IsAskedFor(op))
    return "nobody asked for CTA policy ZERO";
  switch (op.kind) {
    case SL_OP_ALL_GATHER:
    case SL_OP_ALL_TO_ALL:
    case SL_OP_BROADCAST:
    case SL_OP_SCATTER:
      return sl::algo_copy::Has(op, SL_OP_RECV_SYMMETRIC) ? nullptr
                                                          : "its receive buffers are not all in a symmetric window";
    case SL_OP_GATHER:
      return sl::algo_copy::Has(op, SL_OP_SEND_SYMMETRIC) ? nullptr
                                                          : "its send buffers are not all in a symmetric window";
    case SL_OP_SEND:
    case SL_OP_RECV:
      return "two ranks exchange without the others";
    default:
      return "copy engines do not compute";
  }
}

uint64_t sl_algorithm_t::PhaseNs(uint64_t sent_bytes) const {
  return kStartNs + kPeerNs * (size_ - 1) + MoveNs(sent_bytes);
}

uint64_t sl_algorithm_t::WholeBroadcastNs(uint64_t bytes) const { return PhaseNs(bytes * (size_ - 1)); }

uint64_t sl_algorithm_t::PartedBroadcastNs(uint64_t bytes) const {
  const uint64_t part = PartOf(bytes, 0, size_ - 1).bytes;
  return PhaseNs(bytes) + kMiddleNs + kPeerNs * (size_ - 2) + MoveNs(part * (size_ - 2));
}

sl_status_t sl_algorithm_t::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  if (const char* reason = Refuses(op); reason != nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return SL_ERR_UNSUPPORTED;
  }
  const uint64_t bytes = op.count * sl::DatatypeBytes(op.datatype);
  const bool is_parted = op.kind == SL_OP_BROADCAST && PartsBroadcast(bytes);
  out->run = SL_RUN_COPIES;
  out->processors = 0;
  out->determinism = SL_DETERMINISM_WORLD_SIZE;
  out->scratch_bytes = 0;
  out->time_ns = is_parted ? PartedBroadcastNs(bytes) : PhaseNs(bytes * (size_ - 1));
  std::snprintf(out->reason, sizeof(out->reason), "by copy engines%s", is_parted ? ", in two phases" : "");
  return SL_OK;
}

sl::Status sl_algorithm_t::Copies(const sl_op_t& op, std::span<sl_copy_t> out_copies, uint32_t* out_count) const {
  if (const char* reason = Refuses(op); reason != nullptr) return {SL_ERR_UNSUPPORTED, reason};
  const uint64_t bytes = op.count * sl::DatatypeBytes(op.datatype);
  const auto root = static_cast<uint32_t>(op.root);
  CopyWriter writer(out_copies);
  if (op.kind == SL_OP_BROADCAST && PartsBroadcast(bytes)) {
    BroadcastParts(root, bytes, &writer);
  } else if (op.kind == SL_OP_BROADCAST) {
    Broadcast(root, bytes, &writer);
  }
  // The own block first: it is copied beside the others.
  for (uint32_t step = 0; step < size_; ++step) {
    const uint32_t peer = Behind(rank_, step);
    if (op.kind == SL_OP_ALL_GATHER) {
      writer.Add(0, {rank_, SL_BUFFER_SEND, 0}, {peer, SL_BUFFER_RECV, rank_ * bytes}, bytes);
    } else if (op.kind == SL_OP_ALL_TO_ALL) {
      writer.Add(0, {rank_, SL_BUFFER_SEND, peer * bytes}, {peer, SL_BUFFER_RECV, rank_ * bytes}, bytes);
    } else if (op.kind == SL_OP_SCATTER && root == rank_) {
      writer.Add(0, {rank_, SL_BUFFER_SEND, peer * bytes}, {peer, SL_BUFFER_RECV, 0}, bytes);
    } else if (op.kind == SL_OP_GATHER && root == rank_) {
      writer.Add(0, {peer, SL_BUFFER_SEND, 0}, {rank_, SL_BUFFER_RECV, peer * bytes}, bytes);
    }
  }
  *out_count = writer.count();
  return writer.count() <= out_copies.size() ? sl::Status() : sl::Status(SL_ERR_LIMIT);
}

void sl_algorithm_t::Broadcast(uint32_t root, uint64_t bytes, CopyWriter* writer) const {
  if (root != rank_) return;
  for (uint32_t step = 0; step < size_; ++step) {
    writer->Add(0, {rank_, SL_BUFFER_SEND, 0}, {Behind(rank_, step), SL_BUFFER_RECV, 0}, bytes);
  }
}

// Part k belongs to the rank that is k + 1 behind the root.
void sl_algorithm_t::BroadcastParts(uint32_t root, uint64_t bytes, CopyWriter* writer) const {
  const uint32_t parts = size_ - 1;
  if (root == rank_) {
    writer->Add(0, {rank_, SL_BUFFER_SEND, 0}, {rank_, SL_BUFFER_RECV, 0}, bytes);
    for (uint32_t part = 0; part < parts; ++part) {
      const auto [begin, length] = PartOf(bytes, part, parts);
      writer->Add(0, {rank_, SL_BUFFER_SEND, begin}, {Behind(rank_, part + 1), SL_BUFFER_RECV, begin}, length);
    }
    writer->Add(1, {rank_, SL_BUFFER_RECV, 0}, {rank_, SL_BUFFER_RECV, 0}, 0);  // its part in phase 1
    return;
  }
  const uint32_t own = Behind(rank_, size_ - root - 1);
  const auto [begin, length] = PartOf(bytes, own, parts);
  for (uint32_t step = 1; step < parts; ++step) {
    const uint32_t peer = Behind(root, 1 + (own + step) % parts);
    writer->Add(1, {rank_, SL_BUFFER_RECV, begin}, {peer, SL_BUFFER_RECV, begin}, length);
  }
}

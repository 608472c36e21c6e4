// SPDX-License-Identifier: Apache-2.0
//
// Direct exchange: every rank sends to every rank that wants its data, in one hop (an all-reduce takes two). Within a
// host this costs no more bytes than a ring and far fewer hops; it costs a link to every peer.
//
// A rank posts all its chunks of a round before it waits for any, peers in rotated order, so that no rank is everyone's
// first target. One slot a link is enough, and in-place operations are safe: what is read is read before the waits.
#include "algorithm.h"
#include "sdk/datatype.h"

namespace sl::algo_ring {
namespace {

class Direct : public Family {
 public:
  using Family::Family;

  const char* Refuses(const sl_op_t& op, const CostOptions& options) const override {
    if (op.kind == SL_OP_BROADCAST || op.kind == SL_OP_REDUCE) return "one root would serve every rank; see ring, tree";
    if (IsSymmetric(op.kind) && shape_.size > options.direct_ranks) return "more ranks than the option direct_ranks";
    return nullptr;
  }

  const char* Method(const sl_op_t& op) const override {
    if (op.kind == SL_OP_ALL_REDUCE) return "two direct exchanges";
    return IsTransfer(op.kind) ? "one link" : "direct exchange";
  }

  Work WorkOf(const sl_op_t& op) const override {
    const Pieces pieces = Cut(op);
    if (IsTransfer(op.kind)) {
      return {1, pieces.rounds, static_cast<double>(op.count * ElementBytes(op)), false};
    }
    const uint64_t peers = shape_.size - 1;
    const uint64_t trips = op.kind == SL_OP_ALL_REDUCE ? 2 : 1;
    const uint64_t block = op.kind == SL_OP_ALL_REDUCE ? BlockOf(op.count, shape_.size) : op.count;
    // Only an all-reduce must hear from its peers before a round can go on.
    const uint64_t hops = peers == 0 ? 0 : (op.kind == SL_OP_ALL_REDUCE ? trips * pieces.rounds : 1);
    return {hops, trips * peers * pieces.rounds, static_cast<double>(trips * peers * block * ElementBytes(op)), true};
  }

  void Write(const sl_op_t& op, PlanWriter* writer) const override {
    switch (op.kind) {
      case SL_OP_ALL_REDUCE:
        return AllReduce(op, writer);
      case SL_OP_REDUCE_SCATTER:
        return ReduceScatter(op, writer);
      case SL_OP_ALL_GATHER:
        return AllGather(op, writer);
      case SL_OP_ALL_TO_ALL:
        return AllToAll(op, writer);
      case SL_OP_GATHER:
        return Gather(op, writer);
      case SL_OP_SCATTER:
        return Scatter(op, writer);
      default:
        return Pair(op, writer);
    }
  }

 private:
  static bool IsSymmetric(sl_op_kind_t kind) {
    return kind == SL_OP_ALL_REDUCE || kind == SL_OP_ALL_GATHER || kind == SL_OP_REDUCE_SCATTER;
  }

  Pieces Cut(const sl_op_t& op) const {
    if (IsTransfer(op.kind)) return CutPipelined(shape_, op.count, ElementBytes(op), 4);
    const uint64_t block = op.kind == SL_OP_ALL_REDUCE ? BlockOf(op.count, shape_.size) : op.count;
    return CutBlock(shape_, block, ElementBytes(op));
  }

  // Every rank's share of every block to the block's owner.
  void SendShares(PlanWriter* writer) const {
    for (uint32_t k = 1; k < shape_.size; ++k) {
      const uint32_t peer = shape_.Next(k);
      writer->Reserve(peer, SendBlock(peer));
      writer->Reduce(SendBlock(peer), SL_STEP_A_RAW, SendBlock(peer), kNoOperand, Outbox(peer));
      writer->Put(peer, SendBlock(peer));
    }
  }

  // The own block's shares, from the own rank upwards, into `sum`.
  void SumShares(sl_operand_t sum, PlanWriter* writer) const {
    const sl_operand_t own = SendBlock(shape_.rank);
    if (shape_.size == 1) writer->Reduce(own, SL_STEP_A_RAW | SL_STEP_FINAL, own, kNoOperand, sum);
    for (uint32_t k = 1; k < shape_.size; ++k) {
      const uint32_t peer = shape_.Next(k);
      const uint32_t flags = (k == 1 ? SL_STEP_A_RAW : 0) | (k + 1 == shape_.size ? SL_STEP_FINAL : 0);
      writer->Wait(peer, own);
      writer->Reduce(own, flags, k == 1 ? own : sum, Inbox(peer), sum);
      writer->Release(peer, own);
    }
  }

  void SendToAll(sl_operand_t block, PlanWriter* writer) const {
    for (uint32_t k = 1; k < shape_.size; ++k) writer->Put(shape_.Next(k), block, block);
  }

  void TakeFromAll(PlanWriter* writer) const {
    for (uint32_t k = 1; k < shape_.size; ++k) Take(shape_.Previous(k), RecvBlock(shape_.Previous(k)), writer);
  }

  static void Take(uint32_t peer, sl_operand_t block, PlanWriter* writer) {
    writer->Wait(peer, block);
    writer->Copy(block, Inbox(peer), block);
    writer->Release(peer, block);
  }

  void AllReduce(const sl_op_t& op, PlanWriter* writer) const {
    const sl_geometry_t split = Split(op.count, BlockOf(op.count, shape_.size));
    writer->Begin(DescribePlan(shape_.size, Cut(op), split, split));
    SendShares(writer);
    SumShares(RecvBlock(shape_.rank), writer);
    SendToAll(RecvBlock(shape_.rank), writer);
    TakeFromAll(writer);
  }

  void ReduceScatter(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, shape_.size), Blocks(op.count, 1)));
    SendShares(writer);
    SumShares(RecvBlock(0), writer);
  }

  void AllGather(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, 1), Blocks(op.count, shape_.size)));
    SendToAll(SendBlock(0), writer);
    writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(shape_.rank));
    TakeFromAll(writer);
  }

  void AllToAll(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, shape_.size), Blocks(op.count, shape_.size)));
    for (uint32_t k = 1; k < shape_.size; ++k) {
      writer->Put(shape_.Next(k), SendBlock(shape_.Next(k)), SendBlock(shape_.Next(k)));
    }
    writer->Copy(SendBlock(shape_.rank), SendBlock(shape_.rank), RecvBlock(shape_.rank));
    TakeFromAll(writer);
  }

  void Gather(const sl_op_t& op, PlanWriter* writer) const {
    const auto root = static_cast<uint32_t>(op.root);
    const bool is_root = shape_.rank == root;
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, 1), Blocks(op.count, is_root ? shape_.size : 0)));
    if (!is_root) return writer->Put(root, SendBlock(0), SendBlock(0));
    writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(root));
    TakeFromAll(writer);
  }

  void Scatter(const sl_op_t& op, PlanWriter* writer) const {
    const auto root = static_cast<uint32_t>(op.root);
    const bool is_root = shape_.rank == root;
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, is_root ? shape_.size : 0), Blocks(op.count, 1)));
    if (!is_root) return Take(root, RecvBlock(0), writer);
    for (uint32_t k = 1; k < shape_.size; ++k) {
      writer->Put(shape_.Next(k), SendBlock(shape_.Next(k)), SendBlock(shape_.Next(k)));
    }
    writer->Copy(SendBlock(root), SendBlock(root), RecvBlock(0));
  }

  // Point to point has a link lane of its own, so that it never waits for a collective.
  void Pair(const sl_op_t& op, PlanWriter* writer) const {
    const auto peer = static_cast<uint32_t>(op.peer);
    const bool sends = op.kind == SL_OP_SEND;
    const uint32_t link_lane = shape_.link_lanes > 1 ? 1 : 0;
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, sends ? 1 : 0), Blocks(op.count, sends ? 0 : 1)),
                  link_lane);
    if (sends) return writer->Put(peer, SendBlock(0), SendBlock(0));
    Take(peer, RecvBlock(0), writer);
  }
};

}  // namespace

std::unique_ptr<Family> MakeDirect(const Shape& shape) { return std::make_unique<Direct>(shape); }

}  // namespace sl::algo_ring

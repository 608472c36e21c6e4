// SPDX-License-Identifier: Apache-2.0
//
// Rings and chains: every rank talks to its two neighbours only, and every byte crosses every link once, so that large
// operations run at the speed of the links whatever the number of ranks.
//
// Inside a ring each rank keeps its inbox while it reserves the next outbox, which saves a copy and needs links of two
// slots: with one, every rank could hold a chunk and wait for its neighbour's.
#include "algorithm.h"
#include "sdk/datatype.h"

namespace sl::algo_ring {
namespace {

class Ring : public Family {
 public:
  using Family::Family;

  const char* Refuses(const sl_op_t& op, const CostOptions&) const override {
    const bool circular = Circular(op.kind);
    if (!circular && op.kind != SL_OP_BROADCAST && op.kind != SL_OP_REDUCE) return "no ring of this operation";
    if (circular && shape_.size > 1 && shape_.link_slots == 1) return "a ring needs links of two slots";
    return nullptr;
  }

  const char* Method(const sl_op_t& op) const override { return Circular(op.kind) ? "ring" : "chain"; }

  Work WorkOf(const sl_op_t& op) const override {
    const uint64_t hops = shape_.size - 1;
    const Pieces pieces = Cut(op);
    if (op.kind == SL_OP_BROADCAST || op.kind == SL_OP_REDUCE) {
      // Rounds follow each other through the chain.
      return {hops == 0 ? 0 : hops + pieces.rounds - 1, pieces.rounds, static_cast<double>(op.count * ElementBytes(op)),
              false};
    }
    const uint64_t steps = op.kind == SL_OP_ALL_REDUCE ? 2 * hops : hops;
    const uint64_t block = op.kind == SL_OP_ALL_REDUCE ? BlockOf(op.count, shape_.size) : op.count;
    return {steps * pieces.rounds, steps * pieces.rounds, static_cast<double>(steps * block * ElementBytes(op)), false};
  }

  void Write(const sl_op_t& op, PlanWriter* writer) const override {
    switch (op.kind) {
      case SL_OP_ALL_REDUCE:
        return AllReduce(op, writer);
      case SL_OP_ALL_GATHER:
        return AllGather(op, writer);
      case SL_OP_REDUCE_SCATTER:
        return ReduceScatter(op, writer);
      case SL_OP_BROADCAST:
        return Broadcast(op, writer);
      default:
        return Reduce(op, writer);
    }
  }

 private:
  static bool Circular(sl_op_kind_t kind) {
    return kind == SL_OP_ALL_REDUCE || kind == SL_OP_ALL_GATHER || kind == SL_OP_REDUCE_SCATTER;
  }

  Pieces Cut(const sl_op_t& op) const {
    if (op.kind == SL_OP_ALL_REDUCE) return CutBlock(shape_, BlockOf(op.count, shape_.size), ElementBytes(op));
    if (Circular(op.kind)) return CutBlock(shape_, op.count, ElementBytes(op));
    return CutPipelined(shape_, op.count, ElementBytes(op), 4 * uint64_t{shape_.size});
  }

  sl_plan_desc_t DescribeRing(const sl_op_t& op, const sl_geometry_t& send, const sl_geometry_t& recv) const {
    sl_plan_desc_t desc = DescribePlan(shape_.size, Cut(op), send, recv);
    desc.credits = shape_.size > 1 ? 2 : 1;
    return desc;
  }

  // The partial sum of a block goes round from its owner's successor; rank r adds its share and passes it on.
  // `block` is the block added at the first of `count` repetitions.
  void PassSums(uint32_t block, uint32_t count, PlanWriter* writer) const {
    const uint32_t next = shape_.Next();
    const uint32_t previous = shape_.Previous();
    writer->Repeat(count, [&] {
      const sl_operand_t own = SendBlock(block, -1);
      writer->Relay(previous, next, own,
                    [&] { writer->Reduce(own, SL_STEP_B_RAW, Inbox(previous), own, Outbox(next)); });
    });
  }

  void PassBlocks(uint32_t block, uint32_t count, PlanWriter* writer) const {
    const uint32_t next = shape_.Next();
    const uint32_t previous = shape_.Previous();
    writer->Repeat(count, [&] {
      const sl_operand_t own = RecvBlock(block, -1);
      writer->Relay(previous, next, own, [&] { writer->Copy(own, Inbox(previous), own, Outbox(next)); });
    });
  }

  void TakeLast(uint32_t block, PlanWriter* writer) const {
    const uint32_t previous = shape_.Previous();
    writer->Wait(previous, RecvBlock(block));
    writer->Copy(RecvBlock(block), Inbox(previous), RecvBlock(block));
    writer->Release(previous, RecvBlock(block));
  }

  void StartSum(uint32_t block, PlanWriter* writer) const {
    writer->Reserve(shape_.Next(), SendBlock(block));
    writer->Reduce(SendBlock(block), SL_STEP_A_RAW, SendBlock(block), kNoOperand, Outbox(shape_.Next()));
    writer->Put(shape_.Next(), SendBlock(block));
  }

  // Sums go round once, from block `rank` on; whoever completes a block starts its second trip at once.
  void AllReduce(const sl_op_t& op, PlanWriter* writer) const {
    const sl_geometry_t split = Split(op.count, BlockOf(op.count, shape_.size));
    writer->Begin(DescribeRing(op, split, split));
    const uint32_t next = shape_.Next();
    const uint32_t previous = shape_.Previous();
    if (shape_.size == 1) {
      writer->Reduce(SendBlock(0), SL_STEP_A_RAW | SL_STEP_FINAL, SendBlock(0), kNoOperand, RecvBlock(0));
      return;
    }
    StartSum(shape_.rank, writer);
    PassSums(previous, shape_.size - 2, writer);
    const sl_operand_t complete = SendBlock(next);
    writer->Relay(previous, next, complete, [&] {
      writer->Reduce(complete, SL_STEP_B_RAW | SL_STEP_FINAL, Inbox(previous), complete, RecvBlock(next), Outbox(next));
    });
    PassBlocks(shape_.rank, shape_.size - 2, writer);
    TakeLast(shape_.Next(2), writer);
  }

  // As the first trip of AllReduce, but one block later, so that block r is completed by rank r.
  void ReduceScatter(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribeRing(op, Blocks(op.count, shape_.size), Blocks(op.count, 1)));
    const uint32_t previous = shape_.Previous();
    const sl_operand_t own = SendBlock(shape_.rank);
    if (shape_.size == 1) {
      writer->Reduce(own, SL_STEP_A_RAW | SL_STEP_FINAL, own, kNoOperand, RecvBlock(0));
      return;
    }
    StartSum(previous, writer);
    PassSums(shape_.Previous(2), shape_.size - 2, writer);
    writer->Wait(previous, own);
    writer->Reduce(own, SL_STEP_B_RAW | SL_STEP_FINAL, Inbox(previous), own, RecvBlock(0));
    writer->Release(previous, own);
  }

  void AllGather(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribeRing(op, Blocks(op.count, 1), Blocks(op.count, shape_.size)));
    const uint32_t next = shape_.Next();
    if (shape_.size == 1) {
      writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(0));
      return;
    }
    writer->Reserve(next, SendBlock(0));
    writer->Copy(SendBlock(0), SendBlock(0), RecvBlock(shape_.rank), Outbox(next));
    writer->Put(next, SendBlock(0));
    PassBlocks(shape_.Previous(), shape_.size - 2, writer);
    TakeLast(next, writer);
  }

  // The chain starts at the root.
  void Broadcast(const sl_op_t& op, PlanWriter* writer) const {
    const auto root = static_cast<uint32_t>(op.root);
    const bool first = shape_.rank == root;
    const bool last = shape_.Next() == root;
    const sl_operand_t all = RecvBlock(0);
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, first ? 1 : 0), Blocks(op.count, 1)));
    if (!first) writer->Wait(shape_.Previous(), all);
    if (!last) writer->Reserve(shape_.Next(), all);
    writer->Copy(all, first ? SendBlock(0) : Inbox(shape_.Previous()), all, last ? kNoOperand : Outbox(shape_.Next()));
    if (!last) writer->Put(shape_.Next(), all);
    if (!first) writer->Release(shape_.Previous(), all);
  }

  // The chain ends at the root, so it starts at the root's successor.
  void Reduce(const sl_op_t& op, PlanWriter* writer) const {
    const auto root = static_cast<uint32_t>(op.root);
    const bool last = shape_.rank == root;
    const bool first = shape_.Previous() == root;
    const sl_operand_t all = SendBlock(0);
    const uint32_t final_flag = last ? SL_STEP_FINAL : 0;
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, 1), Blocks(op.count, last ? 1 : 0)));
    const sl_operand_t target = last ? RecvBlock(0) : Outbox(shape_.Next());
    if (!first) writer->Wait(shape_.Previous(), all);
    if (!last) writer->Reserve(shape_.Next(), all);
    if (first) {
      writer->Reduce(all, SL_STEP_A_RAW | final_flag, all, kNoOperand, target);
    } else {
      writer->Reduce(all, SL_STEP_B_RAW | final_flag, Inbox(shape_.Previous()), all, target);
    }
    if (!last) writer->Put(shape_.Next(), all);
    if (!first) writer->Release(shape_.Previous(), all);
  }
};

}  // namespace

std::unique_ptr<Family> MakeRing(const Shape& shape) { return std::make_unique<Ring>(shape); }

}  // namespace sl::algo_ring

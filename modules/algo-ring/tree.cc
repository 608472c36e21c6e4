// SPDX-License-Identifier: Apache-2.0
//
// Trees: as few hops as the logarithm of the number of ranks, for small operations. All-reduce is recursive doubling;
// broadcast and reduce are binomial trees over ranks counted from the root.
//
// Recursive doubling folds first when the number of ranks is no power of two: of the first 2 * extra ranks, each odd
// one hands its share to the even one below it and gets the result from it at the end. Partners of a round compute the
// same sum of the same two operands in the same order, so all ranks have the same bits.
#include <bit>

#include "algorithm.h"
#include "sdk/datatype.h"

namespace sl::algo_ring {
namespace {

class Tree : public Family {
 public:
  explicit Tree(const Shape& shape)
      : Family(shape), power_(std::bit_floor(shape.size)), extra_(shape.size - power_), levels_(CeilLog(shape.size)) {}

  const char* Refuses(const sl_op_t& op, const CostOptions&) const override {
    const bool served = op.kind == SL_OP_ALL_REDUCE || op.kind == SL_OP_BROADCAST || op.kind == SL_OP_REDUCE;
    return served ? nullptr : "no tree of this operation";
  }

  const char* Method(const sl_op_t& op) const override {
    return op.kind == SL_OP_ALL_REDUCE ? "recursive doubling" : "binomial tree";
  }

  Work WorkOf(const sl_op_t& op) const override {
    const Pieces pieces = Cut(op);
    const auto bytes = static_cast<double>(op.count * ElementBytes(op));
    if (op.kind == SL_OP_ALL_REDUCE) {
      const uint64_t steps = CeilLog(power_) + (extra_ != 0 ? 2 : 0);
      return {steps * pieces.rounds, steps * pieces.rounds, static_cast<double>(steps) * bytes, false};
    }
    // The root serves `levels` children in every round; rounds follow each other down the tree.
    return {levels_, levels_ * pieces.rounds, static_cast<double>(levels_) * bytes, false};
  }

  uint64_t ScratchBytes(const sl_op_t& op) const override {
    // Whoever has two children or more keeps a partial sum; the estimate is the same on all ranks.
    return op.kind == SL_OP_REDUCE && shape_.size > 4 ? op.count * ElementBytes(op) : 0;
  }

  void Write(const sl_op_t& op, PlanWriter* writer) const override {
    if (op.kind == SL_OP_ALL_REDUCE) return AllReduce(op, writer);
    if (op.kind == SL_OP_BROADCAST) return Broadcast(op, writer);
    Reduce(op, writer);
  }

 private:
  static uint32_t CeilLog(uint32_t size) { return static_cast<uint32_t>(std::bit_width(size - 1)); }

  Pieces Cut(const sl_op_t& op) const {
    if (op.kind == SL_OP_ALL_REDUCE) return CutBlock(shape_, op.count, ElementBytes(op));
    return CutPipelined(shape_, op.count, ElementBytes(op), 4);
  }

  // Contributions that are scaled first are kept as they are sent, or both ends would round differently.
  static bool ScalesFirst(const sl_op_t& op) { return op.reduction == SL_AVG || op.reduction == SL_PREMUL_SUM; }

  // Ranks of the folded communicator, in which there are power_ of them.
  uint32_t Folded(uint32_t rank) const { return rank < 2 * extra_ ? rank / 2 : rank - extra_; }
  uint32_t Unfolded(uint32_t folded) const { return folded < extra_ ? 2 * folded : folded + extra_; }

  void AllReduce(const sl_op_t& op, PlanWriter* writer) const {
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, 1), Blocks(op.count, 1)));
    const bool folds = shape_.rank < 2 * extra_;
    if (shape_.size == 1) {
      writer->Reduce(SendBlock(0), SL_STEP_A_RAW | SL_STEP_FINAL, SendBlock(0), kNoOperand, RecvBlock(0));
    } else if (folds && shape_.rank % 2 != 0) {
      LeaveToPartner(writer);
    } else {
      Double(op, folds, writer);
    }
  }

  void LeaveToPartner(PlanWriter* writer) const {
    const uint32_t partner = shape_.rank - 1;
    writer->Reserve(partner, SendBlock(0));
    writer->Reduce(SendBlock(0), SL_STEP_A_RAW, SendBlock(0), kNoOperand, Outbox(partner));
    writer->Put(partner, SendBlock(0));
    writer->Wait(partner, RecvBlock(0));
    writer->Copy(RecvBlock(0), Inbox(partner), RecvBlock(0));
    writer->Release(partner, RecvBlock(0));
  }

  // Each sum is written to the receive buffer and, in the same step, to the chunk for the next partner.
  void Double(const sl_op_t& op, bool folds, PlanWriter* writer) const {
    const sl_operand_t all = RecvBlock(0);
    const uint32_t own_rank = Folded(shape_.rank);
    uint32_t partner = Unfolded(own_rank ^ 1);
    sl_operand_t own = all;  // what this rank has so far
    writer->Reserve(partner, all);
    if (folds) {
      writer->Wait(shape_.rank + 1, all);
      writer->Reduce(all, SL_STEP_A_RAW, SendBlock(0), Inbox(shape_.rank + 1), all, Outbox(partner));
      writer->Release(shape_.rank + 1, all);
    } else if (ScalesFirst(op)) {
      writer->Reduce(all, SL_STEP_A_RAW, SendBlock(0), kNoOperand, all, Outbox(partner));
    } else {
      writer->Copy(all, SendBlock(0), Outbox(partner));
      own = SendBlock(0);
    }
    writer->Put(partner, all);
    for (uint32_t bit = 1; bit < power_; bit *= 2) {
      const bool last = bit * 2 == power_;
      const bool is_low = (own_rank & bit) == 0;
      const bool passes_on = !last || folds;
      const uint32_t next = last ? shape_.rank + 1 : Unfolded(own_rank ^ (bit * 2));
      writer->Wait(partner, all);
      if (passes_on) writer->Reserve(next, all);
      writer->Reduce(all, last ? SL_STEP_FINAL : 0, is_low ? own : Inbox(partner), is_low ? Inbox(partner) : own, all,
                     passes_on ? Outbox(next) : kNoOperand);
      if (passes_on) writer->Put(next, all);
      writer->Release(partner, all);
      partner = next;
      own = all;
    }
  }

  // Binomial trees over relative ranks: the subtree of v is [v, v + its lowest set bit).
  uint32_t Relative(const sl_op_t& op) const { return shape_.Previous(static_cast<uint32_t>(op.root)); }
  uint32_t Actual(const sl_op_t& op, uint32_t relative) const {
    return (relative + static_cast<uint32_t>(op.root)) % shape_.size;
  }
  static uint32_t Parent(uint32_t relative) { return relative & (relative - 1); }
  uint32_t ChildBits(uint32_t relative) const {
    return relative == 0 ? std::bit_ceil(shape_.size) : relative & (~relative + 1);
  }

  void Broadcast(const sl_op_t& op, PlanWriter* writer) const {
    const uint32_t relative = Relative(op);
    const bool is_root = relative == 0;
    const uint32_t parent = is_root ? 0 : Actual(op, Parent(relative));
    const sl_operand_t all = RecvBlock(0);
    const sl_operand_t source = is_root ? SendBlock(0) : Inbox(parent);
    writer->Begin(DescribePlan(shape_.size, Cut(op), Blocks(op.count, is_root ? 1 : 0), Blocks(op.count, 1)));
    if (!is_root) writer->Wait(parent, all);
    // The child with the largest subtree first; its way is the longest.
    for (uint32_t bit = ChildBits(relative) / 2; bit != 0; bit /= 2) {
      if (relative + bit < shape_.size) writer->Put(Actual(op, relative + bit), all, source);
    }
    writer->Copy(all, source, all);
    if (!is_root) writer->Release(parent, all);
  }

  // Children in rising order, so that contributions are added in the order of relative ranks.
  void Reduce(const sl_op_t& op, PlanWriter* writer) const {
    const uint32_t relative = Relative(op);
    const bool is_root = relative == 0;
    uint32_t children = 0;
    for (uint32_t bit = 1; bit < ChildBits(relative) && relative + bit < shape_.size; bit *= 2) ++children;
    const uint32_t parent = is_root ? 0 : Actual(op, Parent(relative));
    const sl_operand_t all = SendBlock(0);
    const sl_operand_t target = is_root ? RecvBlock(0) : Outbox(parent);
    const sl_operand_t partial = is_root ? RecvBlock(0) : ScratchBlock(0);
    sl_plan_desc_t desc = DescribePlan(shape_.size, Cut(op), Blocks(op.count, 1), Blocks(op.count, is_root ? 1 : 0));
    if (!is_root && children > 1) {
      desc.scratch = Blocks(op.count, 1);
      desc.scratch_bytes = op.count * ElementBytes(op);
    }
    writer->Begin(desc);
    const uint32_t final_flag = is_root ? SL_STEP_FINAL : 0;
    if (children == 0) {
      if (!is_root) writer->Reserve(parent, all);
      writer->Reduce(all, SL_STEP_A_RAW | final_flag, all, kNoOperand, target);
    }
    for (uint32_t i = 0; i < children; ++i) {
      const uint32_t child = Actual(op, relative + (1u << i));
      const bool last = i + 1 == children;
      writer->Wait(child, all);
      if (last && !is_root) writer->Reserve(parent, all);
      writer->Reduce(all, (i == 0 ? SL_STEP_A_RAW : 0) | (last ? final_flag : 0), i == 0 ? all : partial, Inbox(child),
                     last ? target : partial);
      writer->Release(child, all);
    }
    if (!is_root) writer->Put(parent, all);
  }

  const uint32_t power_;   // largest power of two not above the number of ranks
  const uint32_t extra_;   // ranks beyond it
  const uint32_t levels_;  // of a binomial tree
};

}  // namespace

std::unique_ptr<Family> MakeTree(const Shape& shape) { return std::make_unique<Tree>(shape); }

}  // namespace sl::algo_ring

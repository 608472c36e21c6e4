// SPDX-License-Identifier: Apache-2.0
//
// Writes a plan, one readable call a step (sl_algorithm.h says what steps do). `shape` names the block whose part a
// step moves. The first error of the builder stays and everything after it is ignored, so that an algorithm writes its
// plan without looking at statuses and asks status() at the end. One thread; allocates inside Repeat only.
#pragma once

#include <cstdint>
#include <vector>

#include "sl_algorithm.h"

namespace sl {

constexpr sl_operand_t kNoOperand{SL_BUFFER_NONE, 0, 0, -1};

// A block of a buffer; inside Repeat it moves by `step` blocks at each repetition.
constexpr sl_operand_t SendBlock(uint32_t block, int32_t step = 0) { return {SL_BUFFER_SEND, block, step, -1}; }
constexpr sl_operand_t RecvBlock(uint32_t block, int32_t step = 0) { return {SL_BUFFER_RECV, block, step, -1}; }
constexpr sl_operand_t ScratchBlock(uint32_t block, int32_t step = 0) { return {SL_BUFFER_SCRATCH, block, step, -1}; }
constexpr sl_operand_t Inbox(uint32_t peer) { return {SL_BUFFER_INBOX, 0, 0, static_cast<int32_t>(peer)}; }
constexpr sl_operand_t Outbox(uint32_t peer) { return {SL_BUFFER_OUTBOX, 0, 0, static_cast<int32_t>(peer)}; }

class PlanWriter {
 public:
  PlanWriter(const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) : ops_(ops), builder_(builder) {}
  PlanWriter(const PlanWriter&) = delete;
  PlanWriter& operator=(const PlanWriter&) = delete;

  // The frame, and the first lane of the plan, which uses links on their lane `link_lane`.
  void Begin(const sl_plan_desc_t& desc, uint32_t link_lane = 0);
  // Ends the lane and begins another one, which runs at the same time.
  void NextLane(uint32_t link_lane);

  void Wait(uint32_t peer, sl_operand_t shape);
  void Reserve(uint32_t peer, sl_operand_t shape);
  void Copy(sl_operand_t shape, sl_operand_t a, sl_operand_t dst, sl_operand_t dst2 = kNoOperand);
  // dst and dst2 <- a op b; flags are SL_STEP_A_RAW, SL_STEP_B_RAW, SL_STEP_FINAL.
  void Reduce(sl_operand_t shape, uint32_t flags, sl_operand_t a, sl_operand_t b, sl_operand_t dst,
              sl_operand_t dst2 = kNoOperand);
  void Put(uint32_t peer, sl_operand_t shape, sl_operand_t a = kNoOperand);
  void Release(uint32_t peer, sl_operand_t shape);

  // What arrives from one rank goes on to another: `combine` writes the step that reads Inbox(from) and fills
  // Outbox(to). The inbox is kept while the outbox is reserved, so links need two slots.
  template <typename Combine>
  void Relay(uint32_t from, uint32_t to, sl_operand_t shape, Combine combine) {
    Wait(from, shape);
    Reserve(to, shape);
    combine();
    Put(to, shape);
    Release(from, shape);
  }

  // The steps that `body` writes run `count` times.
  template <typename Body>
  void Repeat(uint32_t count, Body body) {
    repeating_ = true;
    body();
    repeating_ = false;
    EndRepeat(count);
  }

  sl_status_t status() const { return status_; }

 private:
  void Add(const sl_step_t& step);
  void EndRepeat(uint32_t count);
  sl_step_t Step(uint32_t kind, sl_operand_t shape) const;

  const sl_plan_builder_ops_t* ops_;
  sl_plan_builder_t* builder_;
  uint32_t link_lane_ = 0;
  bool repeating_ = false;
  std::vector<sl_step_t> repeated_;  // of the Repeat being written
  sl_status_t status_ = SL_OK;
};

}  // namespace sl

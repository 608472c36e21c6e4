// SPDX-License-Identifier: Apache-2.0
//
// Plans written by hand, or taken apart, for tests: a description and lanes of steps, built by the kernel's builder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/plan/plan.h"
#include "sl_algorithm.h"
#include "tools/verify/verify.h"

namespace sl::verify {

constexpr sl_operand_t kNothing{SL_BUFFER_NONE, 0, 0, -1};
constexpr sl_operand_t Send(uint32_t block, int32_t step = 0) { return {SL_BUFFER_SEND, block, step, -1}; }
constexpr sl_operand_t Recv(uint32_t block, int32_t step = 0) { return {SL_BUFFER_RECV, block, step, -1}; }
constexpr sl_operand_t Scratch(uint32_t block, int32_t step = 0) { return {SL_BUFFER_SCRATCH, block, step, -1}; }
constexpr sl_operand_t In(int32_t peer) { return {SL_BUFFER_INBOX, 0, 0, peer}; }
constexpr sl_operand_t Out(int32_t peer) { return {SL_BUFFER_OUTBOX, 0, 0, peer}; }

// Steps; `shape` gives the part, `lane` is the link's.
sl_step_t Wait(int32_t peer, sl_operand_t shape, uint32_t lane = 0);
sl_step_t Reserve(int32_t peer, sl_operand_t shape, uint32_t lane = 0);
sl_step_t Put(int32_t peer, sl_operand_t shape, sl_operand_t a = kNothing, uint32_t lane = 0);
sl_step_t Release(int32_t peer, sl_operand_t shape, uint32_t lane = 0);
sl_step_t Copy(sl_operand_t a, sl_operand_t dst, sl_operand_t shape, sl_operand_t dst2 = kNothing);
sl_step_t Reduce(uint32_t flags, sl_operand_t a, sl_operand_t b, sl_operand_t dst, sl_operand_t shape);
sl_step_t Repeat(uint32_t length, uint32_t count);

struct Sketch {
  sl_plan_desc_t desc{};
  std::vector<std::vector<sl_step_t>> lanes;

  static Sketch Of(const kernel::Plan& plan);
  // The builder's error where it refuses.
  Result<std::unique_ptr<kernel::Plan>> Build(uint32_t rank, uint32_t size, const sl_op_t& op) const;
};

sl_op_t MakeOp(sl_op_kind_t kind, uint64_t count, int32_t root = -1, sl_reduction_t reduction = SL_SUM);
// Both buffers whole, `count` elements in blocks of `block`, in rounds of `chunk`; no scratch, one credit.
sl_plan_desc_t MakeDesc(uint32_t modulus, uint64_t count, uint64_t block, uint64_t chunk);

// Everything a rank executes, REPEATs and rounds unrolled, skipped steps left out: a row of numbers a step, lane after
// lane. Flags count only where contributions are scaled.
using Trace = std::vector<std::vector<int64_t>>;
Trace Unroll(const kernel::Plan& plan, bool scales);

// Sketches of all ranks, and their plans as one case.
class Team {
 public:
  Team(const sl_op_t& op, std::vector<Sketch> sketches);

  std::vector<Sketch>& sketches() { return sketches_; }
  sl_op_t& op(uint32_t rank) { return case_.ranks[rank].op; }
  Case& test() { return case_; }
  // Builds and verifies. A plan that the builder refuses fails the test.
  Verdict Check();
  // "" when proved, else the counter-example.
  std::string Text();

 private:
  std::vector<Sketch> sketches_;
  std::vector<std::unique_ptr<kernel::Plan>> plans_;
  Case case_;
};

}  // namespace sl::verify

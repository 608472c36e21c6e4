// SPDX-License-Identifier: Apache-2.0
//
// Plans that are one plan with all rank numbers moved up: renaming ranks maps the execution of one to that of the
// other, step by step, so that one proof is the other (docs/verify.md, "Folding"). Two uses:
//
// - Roots. Every plan for root R is that of another root, root 0 as a rule, further up.
// - Ranks. The plan of rank r is that of rank 0, r ranks further up: every rank does the same.
//
// Blocks that belong to ranks move with them: block k of such a buffer becomes block k + distance. Orders of reduction
// are kept but name other ranks, so that the class "any number of ranks" is not carried over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernel/plan/plan.h"
#include "sl_algorithm.h"
#include "tools/verify/verify.h"

namespace sl::verify {

struct Rotation {
  uint32_t ranks = 1;
  uint32_t distance = 0;  // below `ranks`
  // Buffers whose blocks move along, one a rank.
  bool moves_send = false;
  bool moves_recv = false;
  bool moves_scratch = false;
};

// The rotation that takes results and buffers of a case to those with its root, or sender, moved up by `distance`; none
// where they name other ranks, or where the plans cut buffers otherwise than into ranks' blocks.
std::optional<Rotation> RotationOfRoots(const Case& test, uint32_t distance);

// The rotation, without its distance, under which the plans of all ranks may be one; none for operations that treat
// ranks unequally. `first` is rank 0's plan.
std::optional<Rotation> RotationOfRanks(const sl_op_t& op, const kernel::Plan& first);

// A plan builder that builds nothing: it compares what it is given with a plan moved up.   one thread
class RotationCheck {
 public:
  // `base` outlives the check.
  RotationCheck(const kernel::Plan& base, const Rotation& rotation) : base_(base), rotation_(rotation) {}

  // What plan() is called with. The functions fail for nothing.
  static const sl_plan_builder_ops_t* Ops();
  sl_plan_builder_t* handle() { return reinterpret_cast<sl_plan_builder_t*>(this); }

  // Whether the plan came whole, and nothing else did.
  bool matches() const;
  // Compares a plan that is already built.
  bool Matches(const kernel::Plan& plan);

  void Describe(const sl_plan_desc_t& desc);
  void BeginLane();
  void AddStep(const sl_step_t& step);

 private:
  uint32_t Moved(uint32_t rank) const;
  bool IsMoved(int32_t base, int32_t turned) const;
  bool MovesBlocks(uint32_t buffer) const;
  bool Same(const sl_operand_t& base, const sl_operand_t& turned) const;
  bool Same(const sl_step_t& base, const sl_step_t& turned) const;

  const kernel::Plan& base_;
  const Rotation rotation_;
  uint32_t lanes_ = 0;                        // begun
  std::span<const kernel::PlanStep> wanted_;  // that the last one still lacks
  bool described_ = false;
  bool differs_ = false;
};

// Whether the plan of every rank in `turned` is that of the rank `rotation.distance` further down in `base`.
bool IsRotation(const Case& base, const Case& turned, const Rotation& rotation);

// Of a case with ranks folded: whether blocks that move with ranks are one element each, as its execution takes them.
bool MovesElements(const Case& folded);

// The case with rank 0's plan alone, which stands for all, where the plans of all ranks are one plan; else none.
std::optional<Case> FoldRanks(const Case& test);

}  // namespace sl::verify

// SPDX-License-Identifier: Apache-2.0
//
// Blocks of several ranks as one chunk. A chunk is one range, so blocks that do not lie side by side are put side by
// side in scratch memory, each of whose blocks reaches to its end: so its last k blocks are the shape of a step that
// moves k blocks, wherever the operands of the step lie. One round, hence blocks of which a chunk holds several.
#pragma once

#include <cstdint>
#include <vector>

#include "sdk/plan_cut.h"
#include "sdk/plan_writer.h"

namespace sl::algo_two_level {

class Bundler {
 public:
  // For blocks of `count` elements, and as many of them in scratch memory as `slots`.
  Bundler(uint64_t count, uint32_t slots, PlanWriter* writer) : count_(count), slots_(slots), writer_(writer) {}

  // Begins a plan for `ranks` ranks whose longest bundle has `most` blocks.
  void Begin(uint32_t ranks, uint32_t most, uint64_t element_bytes, const sl_geometry_t& send,
             const sl_geometry_t& recv) const;

  // The shape of so many blocks.
  sl_operand_t Shape(size_t blocks = 1) const { return ScratchBlock(slots_ - static_cast<uint32_t>(blocks)); }
  void Copy(sl_operand_t from, sl_operand_t to, size_t blocks = 1) const { writer_->Copy(Shape(blocks), from, to); }
  void Put(uint32_t to, sl_operand_t from, size_t blocks = 1) const { writer_->Put(to, Shape(blocks), from); }
  void Take(uint32_t from, sl_operand_t to, size_t blocks = 1) const;

  // The blocks of `ranks` in the send buffer go, and those in the receive buffer come, as one bundle. What has to be
  // put side by side or apart passes through the first blocks of the scratch memory.
  void PutBlocksOf(const std::vector<uint32_t>& ranks, uint32_t to) const;
  void TakeBlocksOf(const std::vector<uint32_t>& ranks, uint32_t from) const;

 private:
  const uint64_t count_;
  const uint32_t slots_;
  PlanWriter* const writer_;
};

}  // namespace sl::algo_two_level

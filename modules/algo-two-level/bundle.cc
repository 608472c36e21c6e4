// SPDX-License-Identifier: Apache-2.0
#include "bundle.h"

#include <algorithm>

namespace sl::algo_two_level {
namespace {

// Whether the blocks of these ranks lie side by side in a buffer that has a block of every rank.
bool AreNeighbours(const std::vector<uint32_t>& ranks) {
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] != ranks[0] + i) return false;
  }
  return true;
}

}  // namespace

void Bundler::Begin(uint32_t ranks, uint32_t most, uint64_t element_bytes, const sl_geometry_t& send,
                    const sl_geometry_t& recv) const {
  const uint64_t rounds = count_ == 0 ? 0 : 1;
  sl_plan_desc_t desc =
      DescribePlan(std::max(ranks, slots_), {std::max<uint64_t>(count_ * most, 1), rounds}, send, recv);
  desc.scratch = {count_, count_ * slots_, count_ * slots_};
  desc.scratch_bytes = desc.scratch.total * element_bytes;
  writer_->Begin(desc);
}

void Bundler::Take(uint32_t from, sl_operand_t to, size_t blocks) const {
  writer_->Wait(from, Shape(blocks));
  writer_->Copy(Shape(blocks), Inbox(from), to);
  writer_->Release(from, Shape(blocks));
}

void Bundler::PutBlocksOf(const std::vector<uint32_t>& ranks, uint32_t to) const {
  if (AreNeighbours(ranks)) return Put(to, SendBlock(ranks[0]), ranks.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) Copy(SendBlock(ranks[i]), ScratchBlock(i));
  Put(to, ScratchBlock(0), ranks.size());
}

void Bundler::TakeBlocksOf(const std::vector<uint32_t>& ranks, uint32_t from) const {
  if (AreNeighbours(ranks)) return Take(from, RecvBlock(ranks[0]), ranks.size());
  Take(from, ScratchBlock(0), ranks.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) Copy(ScratchBlock(i), RecvBlock(ranks[i]));
}

}  // namespace sl::algo_two_level

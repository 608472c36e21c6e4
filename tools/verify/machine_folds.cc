// SPDX-License-Identifier: Apache-2.0
//
// What is asked of a case that stands for others (verify.h, Folds). Where the answer is no, nothing need be wrong: the
// case is then not folded, and whoever folded it executes what it stood for.
#include <algorithm>

#include "tools/verify/machine.h"

namespace sl::verify {

// Rank 0 takes what `sender` sent: what rank 0 itself sent to the opposite rank, turned by `sender`.
bool Machine::Turn(const Process& process, uint32_t sender, Chunk* chunk) {
  for (Piece& piece : chunk->content) {
    Value& value = piece.value;
    value.turn = (value.turn + sender) % size();
    if (!test_.folds.moves_inputs) continue;
    // The element of an input that a value reads moves round with its block.
    if (piece.elements != 1 || !expressions_->HasOneIndex(value.node)) {
      return Fail(Fault::kNotFolded, process, "a chunk that combines several elements", "elements of one index each");
    }
    value.shift = (value.shift + sender) % size();
  }
  // Chunks are asked for their block only in an all-reduce, where all buffers' blocks move or none.
  if (test_.folds.moves_inputs) chunk->block = (chunk->block + sender) % size();
  // A clock has the lanes of rank 0 first, then those of rank 1, and so on.
  const size_t lanes = processes_.size();
  if (!chunk->clock.empty()) {
    const auto moved = static_cast<std::ptrdiff_t>((size() - sender) * lanes);
    std::rotate(chunk->clock.begin(), chunk->clock.begin() + moved, chunk->clock.end());
  }
  return true;
}

// Whether the step being executed may use a chunk of this block.
bool Machine::KeepsBlock(const Process& process, uint32_t chunk_block) {
  if (!test_.folds.blocks || chunk_block == block_) return true;
  return Fail(Fault::kNotFolded, process, "a chunk of another block", "chunks and steps of one block each");
}

bool Machine::LeavesNothing(const Process& process) {
  const auto links = plan(process).links();
  for (uint32_t i = 0; i < links.size(); ++i) {
    if (links[i].send_lane != process.lane || !link(process, i).has_outbox) continue;
    return Fail(Fault::kNotFolded, process, "the lane ends with a chunk reserved", "nothing left for the next round");
  }
  return true;
}

}  // namespace sl::verify

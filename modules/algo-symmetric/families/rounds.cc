// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/families/rounds.h"

#include <algorithm>

#include "modules/algo-symmetric/image_shelf.h"
#include "modules/algo-symmetric/kernels/slice.h"
#include "sdk/datatype.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {

using kernels::kPieceBytes;
using kernels::kThreads;
using kernels::LaneLayout;

namespace {

// What one block should at least have to do; fewer, busier blocks start faster.
constexpr uint64_t kPulledBytesOfBlock = 16 << 10;
// A broadcast that scatters first pays for a second hop above this size.
constexpr uint64_t kScatteredBroadcastBytes = 256 << 10;

// A long broadcast: the root scatters, everybody hands on what it got.
Pattern ScatteredBroadcast(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t element_bytes) {
  const uint64_t line = kernels::kWireLineBytes / element_bytes;
  const uint64_t block = DivideUp(DivideUp(op.count, size), line) * line;
  const bool is_root = op.root == static_cast<int32_t>(rank);
  return {is_root, size, block, op.count, Sources::kRoot, rank, false, !is_root, true};
}

// `cut_blocks`: over which data is cut, at most, and at least `fewest_blocks`; a lane has room for `most_blocks`.
void CutStaged(uint64_t element_bytes, uint32_t size, uint32_t most_blocks, uint32_t cut_blocks, uint32_t fewest_blocks,
               Choice* choice) {
  const Pattern& pattern = choice->pattern;
  const uint64_t line = kernels::kWireLineBytes / element_bytes;
  const uint64_t longest = std::max<uint64_t>(std::min(pattern.block_elements, pattern.total_elements), 1);
  const uint64_t sources = pattern.sources == Sources::kRoot ? 1 : std::max(size, 2u) - 1;
  const uint64_t least = std::max<uint64_t>(kPulledBytesOfBlock / sources, 4096) / element_bytes;
  const uint64_t blocks = std::clamp<uint64_t>(DivideUp(longest, least), fewest_blocks, cut_blocks);
  choice->share_elements = DivideUp(DivideUp(longest, blocks), line) * line;
  choice->blocks = static_cast<uint32_t>(DivideUp(longest, choice->share_elements));
  // A piece of every pattern block fits a stage slot, a piece of one a result slot; pulls from many are shorter.
  const LaneLayout layout = LaneLayout::Of(size, most_blocks);
  uint64_t piece_bytes = layout.stage_slot_bytes / pattern.blocks;
  if (pattern.results_wanted) piece_bytes = std::min(piece_bytes, layout.piece_bytes);
  if (pattern.sources != Sources::kRoot) piece_bytes = std::min<uint64_t>(piece_bytes, kPieceBytes);
  // Rounds are alike: a short one costs the hops of a long one.
  choice->rounds = DivideUp(choice->share_elements, piece_bytes / kernels::kWireLineBytes * line);
  choice->piece_elements = DivideUp(DivideUp(choice->share_elements, choice->rounds), line) * line;
}

}  // namespace

Choice CutRounds(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings, uint32_t cut_blocks,
                 uint32_t fewest_blocks) {
  const uint64_t element_bytes = DatatypeBytes(op.datatype);
  Choice choice{};
  // To memory of the host the root stores once, and each reader has a bus of its own.
  const bool scatters = op.kind == SL_OP_BROADCAST && size > 2 && !settings.on_host &&
                        op.count * element_bytes >= kScatteredBroadcastBytes;
  choice.pattern =
      scatters ? ScatteredBroadcast(op, rank, size, element_bytes) : Pipelined(op, rank, size, element_bytes);
  CutStaged(element_bytes, size, settings.staged_blocks, cut_blocks, fewest_blocks, &choice);
  choice.threads = kThreads;
  return choice;
}

// Formats are in the order of sl_datatype_t.
KernelRef RoundsKernel(bool reduces, sl_datatype_t datatype) {
  if (!reduces) return {kIntegers, kMovingIntegers};
  if (datatype < SL_FLOAT16) return {kIntegers, datatype};
  return {kFloats, datatype - SL_FLOAT16};
}

}  // namespace sl::algo_symmetric

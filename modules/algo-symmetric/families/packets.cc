// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/families/packets.h"

#include <algorithm>

#include "modules/algo-symmetric/families/cost.h"
#include "sdk/datatype.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {

using kernels::kPacketBlocks;
using kernels::kSharedBytes;
using kernels::kThreads;
using kernels::LaneLayout;

namespace {

// What it takes packets to meet in shared memory once more, where a reduction of more than two ranks does not fit.
constexpr uint64_t kMeetAgainNs = 1850;

// What one block should at least have to do; fewer, busier blocks start faster.
constexpr uint64_t kPacketsOfBlock = 128;
constexpr uint64_t kTwoShotPacketsOfBlock = 64;

// What a block can send another rank in each of so many shots.
uint64_t PacketsOfBlock(const PacketKind& kind, uint32_t size, uint32_t shots) {
  return LaneLayout::Of(size, 1).*kind.per_block * (kernels::kShots / shots);
}

// By packets in two shots; blocks are whole packets: an all-reduce, of which every rank reduces one, or a broadcast, of
// which every rank but the root hands on one.
Pattern TwoShot(const PacketKind& kind, const sl_op_t& op, uint32_t rank, uint32_t size) {
  const bool reduces = HasReduction(op.kind);
  const uint32_t blocks = reduces ? size : size - 1;
  const uint64_t packet = kind.payload / DatatypeBytes(op.datatype);
  const uint64_t block = DivideUp(DivideUp(op.count, blocks), packet) * packet;
  return {true, blocks, block, op.count, reduces ? Sources::kAll : Sources::kRoot, rank, reduces, true, true};
}

// Cuts the pattern's blocks over the grid; a block is worth its while from `of_block` packets on. `bytes` are sent.
void CutPackets(const PacketKind& kind, uint64_t element_bytes, uint32_t shots, uint64_t of_block, uint32_t size,
                const Cost& cost, double bytes, const SmBudget& budget, Choice* choice) {
  const Pattern& pattern = choice->pattern;
  const auto block_bytes = static_cast<uint32_t>(pattern.block_elements * element_bytes);
  choice->packets.block_bytes = block_bytes;
  choice->packets.total_bytes = static_cast<uint32_t>(pattern.total_elements * element_bytes);
  choice->packets.send_step = pattern.blocks > 1 ? block_bytes : 0;
  choice->packets.recv_step = pattern.sources == Sources::kRoot ? 0 : block_bytes;
  const uint64_t packets = std::max<uint64_t>(DivideUp(block_bytes, kind.payload), 1);
  const auto grid_of = [&](uint64_t each) {
    return static_cast<uint32_t>(std::min<uint64_t>(DivideUp(packets, each), kPacketBlocks));
  };
  const double carried = bytes * kind.carried / kind.payload;
  const GridWork work{cost, carried, grid_of(of_block), kPacketBlocks, grid_of(PacketsOfBlock(kind, size, shots))};
  const uint32_t blocks = BlocksFor(work, grid_of(1), budget);
  const uint64_t share = DivideUp(packets, blocks);
  choice->packets.share_bytes = static_cast<uint32_t>(share * kind.payload);
  choice->packets.share_units = kind.units(static_cast<uint32_t>(share));
  choice->packets.per_unit = static_cast<uint32_t>(DivideUp(uint64_t{1} << 31, choice->packets.share_units));
  choice->blocks = static_cast<uint32_t>(DivideUp(packets, share));
  choice->time_ns = work.NanosecondsOn(blocks);
  const uint64_t threads = DivideUp(share * size, 32) * 32;
  choice->threads = static_cast<uint32_t>(std::clamp<uint64_t>(threads, 64, kThreads));
}

}  // namespace

bool FitsShared(const PacketKind& kind, uint32_t size) { return size <= kSharedBytes / kind.payload / kind.unit; }

uint64_t PacketBytes(const PacketKind& kind, uint32_t size, uint32_t shots, const SmBudget& budget) {
  return budget.Most(kPacketBlocks) * PacketsOfBlock(kind, size, shots) * kind.payload;
}

const char* RefusesOneShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  if (!FitsShared(kind, size)) return "packets of so many ranks do not meet in shared memory";
  const bool fits = op.count * DatatypeBytes(op.datatype) <= PacketBytes(kind, size, 1, settings.budget);
  return fits ? nullptr : "it is longer than one shot of packets may be";
}

const char* RefusesTwoShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  if (op.kind != SL_OP_ALL_REDUCE && op.kind != SL_OP_BROADCAST) return "two shots make all-reduces and broadcasts";
  if (op.kind == SL_OP_ALL_REDUCE && size < 2) return "one rank has nobody to share with";
  if (op.kind == SL_OP_ALL_REDUCE && !FitsShared(kind, size)) {
    return "packets of so many ranks do not meet in shared memory";
  }
  if (op.kind == SL_OP_BROADCAST && size <= 2) return "two ranks have nobody to hand a broadcast on to";
  if (op.kind == SL_OP_BROADCAST && settings.on_host) return "one store to host memory serves all peers";
  const uint64_t bytes = TwoShot(kind, op, 0, size).block_elements * DatatypeBytes(op.datatype);
  const bool fits = bytes <= PacketBytes(kind, size, 2, settings.budget);
  return fits ? nullptr : "it is longer than two shots of packets may be";
}

Choice CutOneShot(const PacketKind& kind, const PacketCosts& costs, const sl_op_t& op, uint32_t rank, uint32_t size,
                  const GpuSettings& settings) {
  Choice choice{};
  choice.pattern = OneShot(op, rank, size);
  CutPackets(kind, DatatypeBytes(op.datatype), 1, kPacketsOfBlock, size,
             HasReduction(op.kind) ? costs.reduce : costs.move, SentBytes(op, size, false), settings.budget, &choice);
  if (HasReduction(op.kind) && size > 2) {
    const uint32_t meet_at_once = kSharedBytes / kind.payload / kind.unit / size;
    choice.time_ns += (DivideUp(choice.packets.share_units, meet_at_once) - 1) * kMeetAgainNs;
  }
  return choice;
}

Choice CutTwoShot(const PacketKind& kind, const PacketCosts& costs, const sl_op_t& op, uint32_t rank, uint32_t size,
                  const GpuSettings& settings) {
  Choice choice{};
  choice.pattern = TwoShot(kind, op, rank, size);
  const bool reduces = HasReduction(op.kind);
  const double sent = SentBytes(op, reduces ? size : 2, reduces);
  CutPackets(kind, DatatypeBytes(op.datatype), 2, kTwoShotPacketsOfBlock, size, reduces ? costs.reduce : costs.move,
             sent, settings.budget, &choice);
  return choice;
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/choice.h"

#include <algorithm>

#include "modules/algo-symmetric/kernels/args.h"
#include "sdk/datatype.h"
#include "sdk/device/packet.h"

namespace sl::algo_symmetric {

using kernels::kPacketBlocks;
using kernels::kPieceBytes;
using kernels::kSharedPackets;
using kernels::kThreads;
using kernels::LaneLayout;

namespace {

// Costs in a graph: a start (launch, hops, fences), and the bytes that one GPU sends. Packets travel twice as large as
// their data. One-shot's start is measured on two H200, the others are sums of measured hops, fences and bandwidths.
struct Cost {
  double start_ns;
  double bytes_per_ns;
};
constexpr Cost kOneShotCost = {3200, 150};
constexpr Cost kTwoShotCost = {4700, 150};
constexpr Cost kStagedCost = {8500, 330};
constexpr Cost kStagedTwoShotCost = {13000, 330};
constexpr Cost kP2pCost = {6000, 300};

// What one block should at least have to do; fewer, busier blocks start faster.
constexpr uint64_t kPacketsOfBlock = 128;
constexpr uint64_t kTwoShotPacketsOfBlock = 64;
constexpr uint64_t kPulledBytesOfBlock = 16 << 10;
// A broadcast that scatters first pays for a second hop above this size.
constexpr uint64_t kScatteredBroadcastBytes = 256 << 10;

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Bytes that the busiest rank sends.
double SentBytes(const sl_op_t& op, uint32_t size, bool two_shot) {
  const double bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  if (two_shot) return 2 * bytes * (size - 1) / size;
  return bytes * (size - 1);
}

uint64_t Nanoseconds(const Cost& cost, double bytes) {
  return static_cast<uint64_t>(cost.start_ns + bytes / cost.bytes_per_ns);
}

// A long broadcast: the root scatters, everybody hands on what it got.
Pattern ScatteredBroadcast(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t element_bytes) {
  const uint64_t line = dev::kLineBytes / element_bytes;
  const uint64_t block = DivideUp(DivideUp(op.count, size), line) * line;
  const bool is_root = op.root == static_cast<int32_t>(rank);
  return {is_root, size, block, op.count, Sources::kRoot, rank, false, !is_root, true};
}

// What one rank can send another by packets.
uint64_t PacketBytes(uint32_t size) {
  return uint64_t{kPacketBlocks} * LaneLayout::Of(size, 1).packets_per_block * sizeof(dev::Vec8);
}

bool FitsOneShot(const sl_op_t& op, uint32_t size) {
  return size <= kSharedPackets && op.count * DatatypeBytes(op.datatype) <= PacketBytes(size);
}

// An all-reduce by packets; blocks are whole packets.
Pattern TwoShot(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t element_bytes) {
  const uint64_t packet = sizeof(dev::Vec8) / element_bytes;
  const uint64_t block = DivideUp(DivideUp(op.count, size), packet) * packet;
  return {true, size, block, op.count, Sources::kAll, rank, true, true, true};
}

// Cuts blocks of so many packets over the grid.
void CutPackets(uint64_t packets, uint64_t of_block, uint32_t size, Choice* choice) {
  packets = std::max<uint64_t>(packets, 1);
  const uint64_t blocks = std::min<uint64_t>(DivideUp(packets, of_block), kPacketBlocks);
  choice->share_elements = DivideUp(packets, blocks);
  choice->blocks = static_cast<uint32_t>(DivideUp(packets, choice->share_elements));
  const uint64_t wanted = DivideUp(choice->share_elements * size, 32) * 32;
  choice->threads = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 64, kThreads));
}

Choice ChooseOneShot(const sl_op_t& op, uint32_t rank, uint32_t size) {
  Choice choice{};
  choice.family = Family::kOneShot;
  choice.pattern = OneShot(op, rank, size);
  CutPackets(DivideUp(op.count * DatatypeBytes(op.datatype), sizeof(dev::Vec8)), kPacketsOfBlock, size, &choice);
  choice.time_ns = Nanoseconds(kOneShotCost, 2 * SentBytes(op, size, false));
  return choice;
}

bool FitsTwoShot(const sl_op_t& op, uint32_t size) {
  const uint64_t block = DivideUp(op.count * DatatypeBytes(op.datatype), size);
  return op.kind == SL_OP_ALL_REDUCE && size >= 2 && size <= kSharedPackets &&
         block + sizeof(dev::Vec8) <= PacketBytes(size);
}

Choice ChooseTwoShot(const sl_op_t& op, uint32_t rank, uint32_t size) {
  const uint64_t element_bytes = DatatypeBytes(op.datatype);
  Choice choice{};
  choice.family = Family::kTwoShot;
  choice.pattern = TwoShot(op, rank, size, element_bytes);
  const uint64_t packets = choice.pattern.block_elements * element_bytes / sizeof(dev::Vec8);
  CutPackets(packets, kTwoShotPacketsOfBlock, size, &choice);
  choice.time_ns = Nanoseconds(kTwoShotCost, 2 * SentBytes(op, size, true));
  return choice;
}

void CutStaged(uint64_t element_bytes, uint32_t size, uint32_t most_blocks, Choice* choice) {
  const Pattern& pattern = choice->pattern;
  const uint64_t line = dev::kLineBytes / element_bytes;
  const uint64_t longest = std::max<uint64_t>(std::min(pattern.block_elements, pattern.total_elements), 1);
  const uint64_t sources = pattern.sources == Sources::kRoot ? 1 : std::max(size, 2u) - 1;
  const uint64_t least = std::max<uint64_t>(kPulledBytesOfBlock / sources, 4096) / element_bytes;
  const uint64_t blocks = std::clamp<uint64_t>(DivideUp(longest, least), 1, most_blocks);
  choice->share_elements = DivideUp(DivideUp(longest, blocks), line) * line;
  choice->blocks = static_cast<uint32_t>(DivideUp(longest, choice->share_elements));
  // A piece of every pattern block fits a stage slot, a piece of one a result slot; pulls from many are shorter.
  const LaneLayout layout = LaneLayout::Of(size, most_blocks);
  uint64_t piece_bytes = layout.stage_slot_bytes / pattern.blocks;
  if (pattern.results_wanted) piece_bytes = std::min(piece_bytes, layout.piece_bytes);
  if (pattern.sources != Sources::kRoot) piece_bytes = std::min<uint64_t>(piece_bytes, kPieceBytes);
  choice->piece_elements = std::min(piece_bytes / dev::kLineBytes * line, choice->share_elements);
  choice->rounds = DivideUp(choice->share_elements, choice->piece_elements);
}

Choice ChooseStaged(const sl_op_t& op, uint32_t rank, uint32_t size, uint32_t most_blocks) {
  const uint64_t element_bytes = DatatypeBytes(op.datatype);
  Choice choice{};
  choice.family = Family::kStaged;
  const bool scatters = op.kind == SL_OP_BROADCAST && size > 2 && op.count * element_bytes >= kScatteredBroadcastBytes;
  choice.pattern =
      scatters ? ScatteredBroadcast(op, rank, size, element_bytes) : Pipelined(op, rank, size, element_bytes);
  CutStaged(element_bytes, size, most_blocks, &choice);
  choice.threads = kThreads;
  const bool two_shot = choice.pattern.results_wanted;
  choice.time_ns = Nanoseconds(two_shot ? kStagedTwoShotCost : kStagedCost, SentBytes(op, size, two_shot));
  return choice;
}

}  // namespace

const char* FamilyName(Family family) {
  constexpr const char* kNames[kFamilies] = {"one-shot packets", "two-shot packets", "staged"};
  return kNames[static_cast<uint32_t>(family)];
}

Choice Choose(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  Choice best = ChooseStaged(op, rank, size, settings.staged_blocks);
  const auto consider = [&](const Choice& other) {
    const bool better = settings.forced ? other.family == settings.family : other.time_ns <= best.time_ns;
    if (better) best = other;
  };
  if (FitsTwoShot(op, size)) consider(ChooseTwoShot(op, rank, size));
  if (FitsOneShot(op, size)) consider(ChooseOneShot(op, rank, size));
  return best;
}

uint64_t P2pNanoseconds(const sl_op_t& op) {
  return Nanoseconds(kP2pCost, static_cast<double>(op.count * DatatypeBytes(op.datatype)));
}

}  // namespace sl::algo_symmetric

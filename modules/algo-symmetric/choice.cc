// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/choice.h"

#include <algorithm>

#include "modules/algo-symmetric/direct_work.h"
#include "modules/algo-symmetric/kernels/p2p_args.h"
#include "modules/algo-symmetric/kernels/packet_format.h"
#include "modules/algo-symmetric/transfer.h"
#include "sdk/datatype.h"
#include "sdk/plan_cut.h"

namespace sl::algo_symmetric {

using kernels::kChannelsOfBlock;
using kernels::kPacketBlocks;
using kernels::kPieceBytes;
using kernels::kReachRanks;
using kernels::kSharedBytes;
using kernels::kThreads;
using kernels::LaneLayout;

namespace {

// What every way of going costs. Packets that carry their epoch travel twice as large as their data.
struct Costs {
  Cost one_shot_move;
  Cost one_shot_reduce;
  Cost two_shot;
  Cost lamport_move;
  Cost lamport_reduce;
  Cost lamport_two_shot;
  Cost hand_on;  // a broadcast in two shots
  Cost lamport_hand_on;
  Cost staged;
  Cost staged_two_shot;
  Cost staged_broadcast;  // that every rank pulls from the root
  Cost direct_move;
  Cost direct_in_bulk;
  Cost direct_broadcast;  // through the other ranks
  Cost direct_broadcast_of_two;
  Cost direct_reduce;
  Cost direct_reduce_of_two;
  Cost push_reduce;
  Cost push_reduce_of_few;  // two or three
  Cost direct_all_reduce;
  Cost direct_all_reduce_of_two;
  Cost mail;
  Cost landed;
};
// Fitted to what 2 H200 took by packets, a direct broadcast and a direct all-reduce of two; staged ones, pushes, bulk
// copies and broadcasts through other ranks to 3 and 4 H200; other direct ones to 2 H100 (docs/gpu-performance.md).
constexpr Costs kDirectCosts = {
    .one_shot_move = {1800, 200},
    .one_shot_reduce = {1950, 170},
    .two_shot = {3700, 185},
    .lamport_move = {2250, 240},
    .lamport_reduce = {2550, 236},
    .lamport_two_shot = {4500, 250},
    .hand_on = {3400, 185},
    .lamport_hand_on = {4400, 390},
    .staged = {9000, 190},
    .staged_two_shot = {17000, 245},
    .staged_broadcast = {5600, 300},
    .direct_move = {5400, 345},
    .direct_in_bulk = {12000, 371},
    .direct_broadcast = {9000, 355},
    .direct_broadcast_of_two = {5300, 358},
    .direct_reduce = {5600, 329},
    .direct_reduce_of_two = {5600, 329},
    .push_reduce = {17500, 343},
    .push_reduce_of_few = {17300, 358},
    .direct_all_reduce = {6800, 323},
    .direct_all_reduce_of_two = {7800, 345},
    .mail = {3050, 205},
    .landed = {4600, 340},
};
// To what 2 to 4 H200 took where ranks' parts of buffers do not begin at vectors.
constexpr Costs kOddCosts = [] {
  Costs costs = kDirectCosts;
  costs.lamport_move = {4050, 120};
  costs.lamport_reduce = {4350, 120};
  costs.staged = {15000, 40};
  costs.direct_move = {9500, 345};
  costs.direct_reduce = {11000, 306};
  costs.direct_reduce_of_two = {8000, 168};  // results, which are stored in parts, are half of what there is
  costs.push_reduce = {21000, 255};
  costs.push_reduce_of_few = {23000, 278};
  return costs;
}();
// To what 2 H100 took through slices in host memory, over PCIe 5.
constexpr Costs kHostCosts = {
    .one_shot_move = {4400, 25},
    .one_shot_reduce = {4400, 25},
    .two_shot = {6800, 28},
    .lamport_move = {5100, 22.5},
    .lamport_reduce = {5300, 23.5},
    .lamport_two_shot = {8400, 23},
    .hand_on = {},  // every peer loads by itself what a root has stored once
    .lamport_hand_on = {},
    .staged = {13000, 31},
    .staged_two_shot = {19000, 35},
    .staged_broadcast = {11000, 46},
    .direct_move = {},  // there is no such way
    .direct_in_bulk = {},
    .direct_broadcast = {},
    .direct_broadcast_of_two = {},
    .direct_reduce = {},
    .direct_reduce_of_two = {},
    .push_reduce = {},
    .push_reduce_of_few = {},
    .direct_all_reduce = {},
    .direct_all_reduce_of_two = {},
    .mail = {5600, 17},
    .landed = {22000, 34},
};
// Whether ranks' parts of a buffer begin at multiples of so many bytes, should the buffer do so.
bool BeginAt(uint32_t bytes, const sl_op_t& op) {
  const bool is_one = op.kind == SL_OP_ALL_REDUCE || op.kind == SL_OP_REDUCE || op.kind == SL_OP_BROADCAST;
  return is_one || op.count * DatatypeBytes(op.datatype) % bytes == 0;
}
const Costs& CostsOf(const GpuSettings& settings, const sl_op_t& op) {
  if (settings.on_host) return kHostCosts;
  return BeginAt(kernels::kVectorBytes, op) ? kDirectCosts : kOddCosts;
}

// So many SMs fill the bus to host memory, of which slices should not take more than they need; and longer messages
// than these crowd it by packets.
constexpr uint32_t kHostStagedBlocks = 16;
constexpr uint64_t kHostMailedBytes = 128 << 10;

// What more SMs than another way holds should at least save of the time of a long operation, where no weight says so.
constexpr double kWorthMoreSms = 1.03;

// What it takes packets to meet in shared memory once more, where a reduction of more than two ranks does not fit.
constexpr uint64_t kMeetAgainNs = 1850;

// What one block should at least have to do; fewer, busier blocks start faster.
constexpr uint64_t kPacketsOfBlock = 128;
constexpr uint64_t kTwoShotPacketsOfBlock = 64;
constexpr uint64_t kPulledBytesOfBlock = 16 << 10;
constexpr uint64_t kDirectBytesOfBlock = 64 << 10;
// A broadcast that scatters first pays for a second hop above this size.
constexpr uint64_t kScatteredBroadcastBytes = 256 << 10;

// Of the longer buffer of a rank.
uint64_t LongerBytes(const sl_op_t& op, uint32_t size) {
  const bool one = op.kind == SL_OP_ALL_REDUCE || op.kind == SL_OP_REDUCE || op.kind == SL_OP_BROADCAST;
  return op.count * DatatypeBytes(op.datatype) * (one ? 1 : size);
}

// Bytes that the busiest rank sends.
double SentBytes(const sl_op_t& op, uint32_t size, bool two_shot) {
  const double bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  if (two_shot) return 2 * bytes * (size - 1) / size;
  return bytes * (size - 1);
}

// A long broadcast: the root scatters, everybody hands on what it got.
Pattern ScatteredBroadcast(const sl_op_t& op, uint32_t rank, uint32_t size, uint64_t element_bytes) {
  const uint64_t line = kernels::kWireLineBytes / element_bytes;
  const uint64_t block = DivideUp(DivideUp(op.count, size), line) * line;
  const bool is_root = op.root == static_cast<int32_t>(rank);
  return {is_root, size, block, op.count, Sources::kRoot, rank, false, !is_root, true};
}

// Packets of one format.
struct PacketKind {
  Family one_shot;
  Family two_shot;
  Cost Costs::*move_cost;    // in one shot
  Cost Costs::*reduce_cost;  // too
  Cost Costs::*two_shot_cost;
  Cost Costs::*hand_on_cost;
  uint32_t payload;  // bytes of data
  uint32_t carried;  // bytes that travel for it
  uint32_t unit;     // packets that go together
  uint32_t (*units)(uint32_t packets);
  uint32_t LaneLayout::*per_block;
};
constexpr PacketKind kLlKind = {
    .one_shot = Family::kOneShot,
    .two_shot = Family::kTwoShot,
    .move_cost = &Costs::one_shot_move,
    .reduce_cost = &Costs::one_shot_reduce,
    .two_shot_cost = &Costs::two_shot,
    .hand_on_cost = &Costs::hand_on,
    .payload = sizeof(dev::Vec8),
    .carried = sizeof(dev::LlPacket),
    .unit = kernels::LlFormat::kUnit,
    .units = kernels::LlFormat::Unit::Count,
    .per_block = &LaneLayout::packets_per_block,
};
constexpr PacketKind kLamportKind = {
    .one_shot = Family::kLamportOneShot,
    .two_shot = Family::kLamportTwoShot,
    .move_cost = &Costs::lamport_move,
    .reduce_cost = &Costs::lamport_reduce,
    .two_shot_cost = &Costs::lamport_two_shot,
    .hand_on_cost = &Costs::lamport_hand_on,
    .payload = sizeof(dev::Vec16),
    .carried = sizeof(dev::LamportPacket) + sizeof(uint64_t) / kernels::kLamportUnit,
    .unit = kernels::LamportFormat::kUnit,
    .units = kernels::LamportFormat::Unit::Count,
    .per_block = &LaneLayout::lamport_per_block,
};

// What a block can send another rank in each of so many shots.
uint64_t PacketsOfBlock(const PacketKind& kind, uint32_t size, uint32_t shots) {
  return LaneLayout::Of(size, 1).*kind.per_block * (kernels::kShots / shots);
}

// And all blocks that there may be.
uint64_t PacketBytes(const PacketKind& kind, uint32_t size, uint32_t shots, const SmBudget& budget) {
  return budget.Most(kPacketBlocks) * PacketsOfBlock(kind, size, shots) * kind.payload;
}

// Of every rank one unit at least meets in shared memory.
bool FitsShared(const PacketKind& kind, uint32_t size) { return size <= kSharedBytes / kind.payload / kind.unit; }

bool FitsOneShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const SmBudget& budget) {
  return FitsShared(kind, size) && op.count * DatatypeBytes(op.datatype) <= PacketBytes(kind, size, 1, budget);
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

Choice ChooseOneShot(const PacketKind& kind, const sl_op_t& op, uint32_t rank, uint32_t size,
                     const GpuSettings& settings) {
  Choice choice{};
  choice.family = kind.one_shot;
  choice.pattern = OneShot(op, rank, size);
  const Cost& cost = CostsOf(settings, op).*(HasReduction(op.kind) ? kind.reduce_cost : kind.move_cost);
  CutPackets(kind, DatatypeBytes(op.datatype), 1, kPacketsOfBlock, size, cost, SentBytes(op, size, false),
             settings.budget, &choice);
  if (HasReduction(op.kind) && size > 2) {
    const uint32_t meet_at_once = kSharedBytes / kind.payload / kind.unit / size;
    choice.time_ns += (DivideUp(choice.packets.share_units, meet_at_once) - 1) * kMeetAgainNs;
  }
  return choice;
}

bool FitsTwoShot(const PacketKind& kind, const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  const bool reduces = op.kind == SL_OP_ALL_REDUCE && size >= 2 && FitsShared(kind, size);
  const bool hands_on = op.kind == SL_OP_BROADCAST && size > 2 && !settings.on_host;
  return (reduces || hands_on) && TwoShot(kind, op, 0, size).block_elements * DatatypeBytes(op.datatype) <=
                                      PacketBytes(kind, size, 2, settings.budget);
}

Choice ChooseTwoShot(const PacketKind& kind, const sl_op_t& op, uint32_t rank, uint32_t size,
                     const GpuSettings& settings) {
  Choice choice{};
  choice.family = kind.two_shot;
  choice.pattern = TwoShot(kind, op, rank, size);
  const bool reduces = HasReduction(op.kind);
  const Cost& cost = CostsOf(settings, op).*(reduces ? kind.two_shot_cost : kind.hand_on_cost);
  const double sent = SentBytes(op, reduces ? size : 2, reduces);
  CutPackets(kind, DatatypeBytes(op.datatype), 2, kTwoShotPacketsOfBlock, size, cost, sent, settings.budget, &choice);
  return choice;
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

// The rounds, on a grid within these bounds.
Choice CutRounds(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings, uint32_t cut_blocks,
                 uint32_t fewest_blocks = 1) {
  const uint64_t element_bytes = DatatypeBytes(op.datatype);
  Choice choice{};
  choice.family = Family::kStaged;
  // To memory of the host the root stores once, and each reader has a bus of its own.
  const bool scatters = op.kind == SL_OP_BROADCAST && size > 2 && !settings.on_host &&
                        op.count * element_bytes >= kScatteredBroadcastBytes;
  choice.pattern =
      scatters ? ScatteredBroadcast(op, rank, size, element_bytes) : Pipelined(op, rank, size, element_bytes);
  CutStaged(element_bytes, size, settings.staged_blocks, cut_blocks, fewest_blocks, &choice);
  choice.threads = kThreads;
  return choice;
}

Choice ChooseStaged(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings,
                    uint32_t most_blocks) {
  Choice choice = CutRounds(op, rank, size, settings, settings.staged_blocks);
  const bool two_shot = choice.pattern.results_wanted;
  const bool broadcasts = op.kind == SL_OP_BROADCAST;
  const Costs& costs = CostsOf(settings, op);
  const Cost& cost = two_shot ? costs.staged_two_shot : broadcasts ? costs.staged_broadcast : costs.staged;
  const double bytes = static_cast<double>(op.count * DatatypeBytes(op.datatype));
  const double sent = broadcasts && settings.on_host ? bytes : SentBytes(op, size, two_shot);
  const GridWork work{cost, sent, choice.blocks, settings.staged_blocks};
  const uint32_t blocks = BlocksFor(work, most_blocks, settings.budget);
  if (blocks != choice.blocks) choice = CutRounds(op, rank, size, settings, blocks, blocks);
  choice.time_ns = work.NanosecondsOn(blocks);
  return choice;
}

// Scalars of premultiplied sums differ from rank to rank, and only rounds multiply before others read.
bool FitsDirect(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  return settings.reaches && size >= 2 && size <= kReachRanks &&
         !(HasReduction(op.kind) && op.reduction == SL_PREMUL_SUM);
}

// Loads and stores that share the wire are in each other's way, less so where half of both stays at home.
const Cost& DirectCost(Family family, const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  const sl_op_kind_t kind = op.kind;
  const Costs& costs = CostsOf(settings, op);
  if (family == Family::kBulk) return costs.direct_in_bulk;
  if (family == Family::kPush) return size <= 3 ? costs.push_reduce_of_few : costs.push_reduce;
  if (kind == SL_OP_ALL_REDUCE) return size == 2 ? costs.direct_all_reduce_of_two : costs.direct_all_reduce;
  if (HasReduction(kind)) return size == 2 ? costs.direct_reduce_of_two : costs.direct_reduce;
  if (kind != SL_OP_BROADCAST) return costs.direct_move;
  return size == 2 ? costs.direct_broadcast_of_two : costs.direct_broadcast;
}

uint32_t EnoughBlocks(Family family, const sl_op_t& op, uint32_t size) {
  if (family == Family::kBulk) return WithHomeWork(kBulkBlocks, size);
  if (family == Family::kPush) return PushingBlocks(size);
  const bool is_odd = HasReduction(op.kind) && !BeginAt(kernels::kVectorBytes, op);
  return is_odd ? kOddReducingBlocks : BlocksForWire(op.kind, size);
}

// Bulk copies do not pay where parts do not begin at lines, and cannot go where they do not begin at vectors.
bool FitsBulk(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  const bool pays = BeginAt(kernels::kWireLineBytes, op) || settings.forced;
  return FitsDirect(op, size, settings) && !HasReduction(op.kind) && pays;
}

// Peers store to the slice, hence to no buffer that might be out of reach. On fewer blocks than it takes to push and to
// reduce what the wire carries, direct reductions, which only load, are quicker.
bool FitsPush(const sl_op_t& op, uint32_t size, const GpuSettings& settings) {
  constexpr uint32_t kFewestSlots = 4;
  if (op.kind != SL_OP_REDUCE_SCATTER || op.reduction == SL_PREMUL_SUM || settings.on_host) return false;
  const bool has_blocks = settings.budget.Most(settings.staged_blocks) >= PushingBlocks(size);
  return size >= 2 && size <= kReachRanks && (has_blocks || settings.forced) &&
         LaneLayout::Of(size, settings.staged_blocks).unit_slots >= kFewestSlots;
}

Choice ChooseDirect(Family family, const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings,
                    uint32_t most_blocks, bool spares) {
  const bool in_bulk = family == Family::kBulk;
  const uint64_t bytes = op.count * DatatypeBytes(op.datatype);
  const bool goes_through_peers = op.kind == SL_OP_REDUCE || op.kind == SL_OP_BROADCAST;  // see DirectOf
  const uint64_t moved = LongerBytes(op, size);
  const double sent =
      goes_through_peers ? static_cast<double>(bytes) : SentBytes(op, size, op.kind == SL_OP_ALL_REDUCE);
  const uint32_t enough = EnoughBlocks(family, op, size);
  const bool all_serve = family == Family::kDirect && (!spares || moved < kLongBytes);
  const uint32_t useful = all_serve ? settings.staged_blocks : std::min(enough, settings.staged_blocks);
  const auto wanted = static_cast<uint32_t>(std::clamp<uint64_t>(DivideUp(moved, kDirectBytesOfBlock), 1, useful));
  const Cost& cost = DirectCost(family, op, size, settings);
  const GridWork work{cost, sent, wanted, enough};
  const uint32_t blocks = BlocksFor(work, most_blocks, settings.budget);
  Choice choice = CutRounds(op, rank, size, settings, blocks);
  choice.family = family;
  choice.blocks = blocks;
  choice.direct = DirectOf(op, rank, size, settings.pushes);
  choice.direct.share_bytes =
      DivideUp(DivideUp(choice.direct.bytes, blocks), kernels::kWireLineBytes) * kernels::kWireLineBytes;
  const bool is_pushed = family == Family::kPush;
  if (is_pushed) {
    choice.direct.blocks = blocks;  // which draw units
  } else if (in_bulk || BytesDrawn(choice.direct, size) >= settings.drawn_bytes) {
    Draw(size, blocks, in_bulk, &choice.direct);
  }
  const Reached reached = is_pushed ? Reached{} : ReachedOf(op, rank, settings.pushes);
  choice.send_reached = reached.send;
  choice.recv_reached = reached.recv;
  choice.time_ns = work.NanosecondsOn(blocks);
  return choice;
}

}  // namespace

GpuSettings GpuSettings::On(const sl_comm_shape_t& shape) const {
  GpuSettings settings = *this;
  settings.on_host = shape.heap_on_host != 0;
  if (settings.on_host) {
    settings.staged_blocks = std::min(staged_blocks, kHostStagedBlocks);
    // What a kernel makes blank, and the packet that comes there next, reach host memory over different links: the end
    // of the whole kernel has to lie between them.
    settings.depends = false;
  }
  settings.budget = SmBudget::Of(shape);
  return settings;
}

Choice Choose(const sl_op_t& op, uint32_t rank, uint32_t size, const GpuSettings& settings) {
  const bool asks = !settings.forced && settings.table != nullptr;
  const ChoiceTable::Entry* told = asks ? settings.table->Find(op.kind, size, LongerBytes(op, size)) : nullptr;
  const bool limited = told != nullptr && told->blocks != 0;
  const bool spares = !limited && !settings.forced;  // who says how, or how many, gets as many
  const uint32_t blocks = limited ? std::min(told->blocks, settings.staged_blocks) : settings.staged_blocks;
  Choice best = ChooseStaged(op, rank, size, settings, blocks);
  best.is_told = told != nullptr && told->family == Family::kStaged;
  const auto cost_of = [&](const Choice& one) { return Weighed(one.time_ns, one.blocks, settings.budget); };
  // The cheapest, unless a family is forced, or told and can serve. `worth`: how many times as cheap it must be.
  const auto consider = [&](Choice other, double worth = 1) {
    other.is_told = told != nullptr && told->family == other.family;
    const bool better = settings.forced ? other.family == settings.family : worth * cost_of(other) <= cost_of(best);
    if (other.is_told || (better && !best.is_told)) best = other;
  };
  const auto direct = [&](Family family) { return ChooseDirect(family, op, rank, size, settings, blocks, spares); };
  if (FitsDirect(op, size, settings)) consider(direct(Family::kDirect));
  if (FitsBulk(op, size, settings)) consider(direct(Family::kBulk));
  if (FitsPush(op, size, settings)) {
    const Choice pushed = direct(Family::kPush);
    const bool holds_more = settings.budget.weight == 0 && pushed.blocks > best.blocks;
    consider(pushed, holds_more ? kWorthMoreSms : 1);
  }
  for (const PacketKind* kind : {&kLamportKind, &kLlKind}) {
    const SmBudget& budget = settings.budget;
    if (FitsTwoShot(*kind, op, size, settings)) consider(ChooseTwoShot(*kind, op, rank, size, settings));
    if (FitsOneShot(*kind, op, size, budget)) consider(ChooseOneShot(*kind, op, rank, size, settings));
  }
  if (best.is_told || limited) {
    // Whoever says how has weighed it himself: other algorithms are compared with what the costs would have chosen.
    GpuSettings untold = settings;
    untold.table = nullptr;
    best.time_ns = std::min(best.time_ns, Choose(op, rank, size, untold).time_ns);
  }
  return best;
}

kernels::P2pWays WaysOf(const GpuSettings& settings, uint32_t size) {
  const bool staged = settings.forced && settings.family == Family::kStaged;
  const bool direct = settings.forced && IsDirect(settings.family);
  const uint32_t most = LaneLayout::Of(size, 1).channels;
  const uint32_t queues = 2 * std::max(size - 1, 1u);
  const uint32_t shared = kChannelsOfBlock * std::max(settings.budget.most / queues, 1u);
  const uint32_t channels = settings.budget.most != 0 ? std::min(most, shared) : most;
  const uint64_t mailed = settings.on_host ? kHostMailedBytes : kernels::MailedBytes(channels);
  if (staged || direct) return {0, channels, settings.reaches && !staged, 0};
  return {mailed, channels, settings.reaches, std::min(kernels::ShortChannelsOf(size), channels / kChannelsOfBlock)};
}

P2pCost CostOf(const sl_op_t& op, const kernels::P2pWays& ways, uint32_t size, const GpuSettings& settings) {
  const uint64_t bytes = BytesOf(op);
  kernels::P2pWays unbound = ways;
  unbound.channels = LaneLayout::Of(size, 1).channels;
  const auto blocks_of = [&](const kernels::P2pWays& its) {
    const uint32_t used = kernels::ChannelsOf(bytes, its, its.channels);
    return static_cast<uint32_t>(DivideUp(used, its.IsShort(bytes) ? 1 : kChannelsOfBlock));
  };
  const Costs& costs = CostsOf(settings, op);
  const GridWork work{bytes <= ways.mailed_bytes ? costs.mail : costs.landed, static_cast<double>(bytes),
                      blocks_of(unbound), kStoringBlocks};
  const uint32_t blocks = blocks_of(ways);
  return {blocks, work.NanosecondsOn(blocks)};
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/cuda_rank.h"

#include <algorithm>
#include <vector>

#include "modules/algo-symmetric/families/family.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {

using kernels::Args;
using kernels::kSliceHeadBytes;
using kernels::LaneLayout;
using kernels::LongArgs;
using kernels::Reach;

namespace {

static_assert(sizeof(LongArgs) <= 4096, "kernels promise arguments of at least 4,096 bytes");

GpuSettings SettingsFor(GpuSettings settings, const sl_algorithm_env_t& env) {
  settings = settings.On(*env.shape);
  settings.reaches = env.reach_ops != nullptr;
  return settings;
}

// Bytes of both buffers of a rank.
uint64_t SendBytes(const sl_op_t& op, uint32_t size) {
  const bool many = op.kind == SL_OP_REDUCE_SCATTER || op.kind == SL_OP_ALL_TO_ALL || op.kind == SL_OP_SCATTER;
  return op.count * DatatypeBytes(op.datatype) * (many ? size : 1);
}
uint64_t RecvBytes(const sl_op_t& op, uint32_t size) {
  const bool many = op.kind == SL_OP_ALL_GATHER || op.kind == SL_OP_ALL_TO_ALL || op.kind == SL_OP_GATHER;
  return op.count * DatatypeBytes(op.datatype) * (many ? size : 1);
}

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

}  // namespace

uint64_t CudaRank::SliceBytes(uint32_t ranks, const GpuSettings& settings) {
  return kSliceHeadBytes + (1 + settings.graph_lanes) * LaneLayout::Of(ranks, settings.staged_blocks).total;
}

CudaRank::CudaRank(const sl_algorithm_env_t& env, const GpuSettings& settings)
    : device_ops_(env.device_ops),
      device_(env.device),
      settings_(SettingsFor(settings, env)),
      layout_(LaneLayout::Of(env.shape->size, settings_.staged_blocks)),
      control_(env.control),
      reach_ops_(env.reach_ops),
      reach_(env.reach),
      rank_(env.shape->rank),
      size_(env.shape->size) {}

Status CudaRank::LoadKernels(ImageShelf* shelf) {
  SL_ASSIGN(images_, shelf->For(device_ops_, device_));
  return {};
}

Status CudaRank::Take(const sl_symmetric_t& symmetric) {
  symmetric_ = symmetric;
  return settings_.first_epoch != 0 ? WindCounters() : Status();
}

Status CudaRank::WindCounters() {
  sl_stream_t* stream = nullptr;
  SL_TRY(Status(device_ops_->stream_create(device_, &stream)));
  const std::vector<uint32_t> epochs(kernels::kEpochWords * kernels::kPacketBlocks, settings_.first_epoch);
  const std::vector<uint64_t> meetings(layout_.staged_blocks, settings_.first_epoch);
  const std::vector<kernels::ChannelCount> channels(uint64_t{size_} * layout_.channels,
                                                    {0, settings_.first_epoch, {0, 0}});
  const uint64_t first_packet = uint64_t{settings_.first_epoch} * kernels::kShortPackets;
  const std::vector<kernels::MailCount> shorts(uint64_t{size_} * layout_.short_channels, {first_packet, first_packet});
  sl_status_t status = SL_OK;
  const auto wind = [&](uint8_t* counters, const void* from, uint64_t bytes) {
    if (status == SL_OK) status = device_ops_->copy(device_, stream, counters, from, bytes);
  };
  for (uint32_t lane = 0; lane <= settings_.graph_lanes; ++lane) {
    const kernels::Team team = TeamFor(lane);
    wind(team.At(rank_, layout_.epochs), epochs.data(), epochs.size() * sizeof(uint32_t));
    wind(team.At(rank_, layout_.meetings), meetings.data(), meetings.size() * sizeof(uint64_t));
    for (uint64_t table : {layout_.sent, layout_.received}) {
      wind(team.At(rank_, table), channels.data(), channels.size() * sizeof(kernels::ChannelCount));
    }
    for (uint64_t table : {layout_.short_sent, layout_.short_received}) {
      wind(team.At(rank_, table), shorts.data(), shorts.size() * sizeof(kernels::MailCount));
    }
  }
  if (status == SL_OK) status = device_ops_->stream_wait_idle(device_, stream, UINT64_MAX);
  device_ops_->stream_destroy(device_, stream);
  return Status(status);
}

kernels::Team CudaRank::TeamFor(uint64_t capture) const {
  const uint64_t lane = capture == 0 ? 0 : 1 + (capture - 1) % settings_.graph_lanes;
  kernels::Team team{};
  team.lane = symmetric_.base + kSliceHeadBytes + lane * layout_.total;
  team.stride = symmetric_.stride;
  team.layout = layout_;
  auto* claim = reinterpret_cast<uint32_t*>(symmetric_.base + rank_ * symmetric_.stride);
  // Hostile timing looks more often, so that aborts are met in the middle of operations; over the bus a turn of many
  // threads takes up to some 50 us.
  const uint32_t pace = settings_.dawdle_ns != 0 ? 128 : settings_.on_host ? 32 : 1;
  team.warden = {control_, claim, settings_.dawdle_ns, pace};
  team.rank = rank_;
  team.size = size_;
  team.trigger = settings_.depends ? settings_.trigger : kernels::Trigger::kExit;
  return team;
}

Args CudaRank::ArgsFor(const sl_op_t& op, const Choice& choice) const {
  Args args{};
  args.team = TeamFor(op.capture);
  args.pattern = choice.pattern;
  args.send = static_cast<const uint8_t*>(op.send);
  args.recv = static_cast<uint8_t*>(op.recv);
  args.scalar = op.scalar;
  args.scalar_bits = op.scalar_bits;
  args.packets = choice.packets;
  args.share_elements = choice.share_elements;
  args.piece_elements = choice.piece_elements;
  args.rounds = choice.rounds;
  args.reduction = op.reduction;
  args.element_bytes = static_cast<uint32_t>(DatatypeBytes(op.datatype));
  args.giver = op.kind == SL_OP_BROADCAST || op.kind == SL_OP_SCATTER ? op.root : -1;
  args.taker = op.kind == SL_OP_REDUCE || op.kind == SL_OP_GATHER ? op.root : -1;
  return args;
}

// Whether all peers see it.
bool CudaRank::Ask(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses) const {
  return bytes != 0 && reach_ops_->addresses(reach_, memory, bytes, capture, out_addresses) == SL_OK;
}

Reach CudaRank::ReachFor(const sl_op_t& op, const Choice& choice, uint64_t* out_of_reach) const {
  constexpr uint64_t kUntouched = 1;
  Reach reach{};
  const uint64_t send_bytes = SendBytes(op, size_);
  const uint64_t recv_bytes = RecvBytes(op, size_);
  // Every rank would store where another still has to load.
  const bool swaps = op.kind == SL_OP_ALL_TO_ALL && Overlap(op.send, send_bytes, op.recv, recv_bytes);
  if (swaps || (choice.send_reached && !Ask(op.send, send_bytes, op.capture, reach.send)) ||
      (choice.recv_reached && !Ask(op.recv, recv_bytes, op.capture, reach.recv))) {
    ++*out_of_reach;
    return {};
  }
  for (uint32_t r = 0; r < size_; ++r) {
    if (!choice.send_reached) reach.send[r] = kUntouched;
    if (!choice.recv_reached) reach.recv[r] = op.recv != nullptr ? reinterpret_cast<uintptr_t>(op.recv) : kUntouched;
  }
  if (op.send != nullptr) reach.send[rank_] = reinterpret_cast<uintptr_t>(op.send);
  if (op.recv != nullptr) reach.recv[rank_] = reinterpret_cast<uintptr_t>(op.recv);
  return reach;
}

LongArgs CudaRank::LongArgsFor(const sl_op_t& op, const Choice& choice, uint64_t* out_of_reach) const {
  LongArgs args{ArgsFor(op, choice), choice.direct, {}};
  if (choice.family->is_direct) args.reach = ReachFor(op, choice, out_of_reach);
  return args;
}

void CudaRank::FillGrid(uint32_t image, uint32_t kernel, uint32_t blocks, uint32_t threads, sl_launch_t* out) const {
  out->image = images_[image];
  out->kernel = kernel;
  out->grid[0] = blocks;
  out->grid[1] = out->grid[2] = 1;
  out->block[0] = threads;
  out->block[1] = out->block[2] = 1;
  if (settings_.depends) out->flags |= SL_LAUNCH_DEPENDENT;  // all entry points begin with dev::AwaitEarlierGrids
}

Result<std::shared_ptr<CudaRank>> CudaRanks::For(const sl_algorithm_env_t& env, const GpuSettings& settings,
                                                 ImageShelf* shelf) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranks_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<CudaRank> rank = ranks_[env.shape].lock();
  if (rank == nullptr) {
    rank = std::make_shared<CudaRank>(env, settings);
    SL_TRY(rank->LoadKernels(shelf));
    ranks_[env.shape] = rank;
  }
  if (env.symmetric.base != nullptr) SL_TRY(rank->Take(env.symmetric));
  return rank;
}

}  // namespace sl::algo_symmetric

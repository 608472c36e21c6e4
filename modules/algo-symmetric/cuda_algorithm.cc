// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/cuda_algorithm.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "modules/algo-symmetric/kernels/prompt.h"
#include "modules/algo-symmetric/transfer.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {

using kernels::AnyMailArgs;
using kernels::Args;
using kernels::FewestMessages;
using kernels::FewMessages;
using kernels::IsPrompt;
using kernels::kSliceHeadBytes;
using kernels::LaneLayout;
using kernels::LongArgs;
using kernels::ManyMessages;
using kernels::Reach;
using kernels::ShortArgs;

namespace {

struct KernelRef {
  uint32_t image;
  uint32_t kernel;
};

// Formats are in the order of sl_datatype_t; what computes nothing comes behind them.
KernelRef KernelFor(Family family, bool reduces, sl_datatype_t datatype) {
  const uint32_t packets = IsLamport(family) ? kLamport : kPackets;
  if (IsOneShot(family)) return {packets, reduces ? datatype : SL_DATATYPE_COUNT};
  if (IsTwoShot(family)) return {packets, SL_DATATYPE_COUNT + 1 + (reduces ? datatype : SL_DATATYPE_COUNT)};
  if (!reduces) return {kIntegers, kMovingIntegers};
  if (family == Family::kPush) return {kPushReductions, datatype};
  if (datatype < SL_FLOAT16) return {kIntegers, datatype};
  return {kFloats, datatype - SL_FLOAT16};
}
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

uint64_t CudaAlgorithm::SliceBytes(uint32_t ranks, const GpuSettings& settings) {
  return kSliceHeadBytes + (1 + settings.graph_lanes) * LaneLayout::Of(ranks, settings.staged_blocks).total;
}

CudaAlgorithm::CudaAlgorithm(const sl_host_t* host_of, const sl_algorithm_env_t& env, const GpuSettings& settings)
    : sl_algorithm_t(host_of),
      device_ops_(env.device_ops),
      device_(env.device),
      symmetric_(env.symmetric),
      settings_(SettingsFor(settings, env)),
      layout_(LaneLayout::Of(env.shape->size, settings_.staged_blocks)),
      control_(env.control),
      reach_ops_(env.reach_ops),
      reach_(env.reach),
      wishes_(CallWishes::Of(env)),
      rank_(env.shape->rank),
      size_(env.shape->size),
      p2p_(env.shape->size, env.reach_ops, env.reach, WaysOf(settings_, env.shape->size), settings_.budget),
      mail_(env.shape->rank, env.shape->size, p2p_.ways(), settings_.budget) {}

CudaAlgorithm::~CudaAlgorithm() {
  if (settings_.forced && host != nullptr) {
    const uint64_t out_of_reach = out_of_reach_ + p2p_.out_of_reach();
    const std::string text = "rank " + std::to_string(rank_) + ": of " + std::to_string(operations_) +
                             " operations on the GPU " + std::to_string(served_) + " ran as " +
                             FamilyName(settings_.family) + ", which is forced; " + std::to_string(out_of_reach) +
                             " had a buffer out of reach";
    host->log(host->ctx, SL_LOG_INFO, text.c_str());
  }
}

Status CudaAlgorithm::LoadKernels(ImageShelf* shelf) {
  SL_ASSIGN(images_, shelf->For(device_ops_, device_));
  return {};
}

Status CudaAlgorithm::WindCounters() {
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

sl_status_t CudaAlgorithm::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->scratch_bytes = 0;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = SL_RUN_LAUNCH;
  if (IsTransfer(op)) {
    const uint64_t bytes = BytesOf(op);
    const P2pCost cost = CostOf(op, p2p_.ways(), size_, settings_);
    out->processors = cost.blocks;
    out->time_ns = cost.time_ns;
    const char* how = op.peer == static_cast<int32_t>(rank_) ? "copied"
                      : bytes <= p2p_.ways().mailed_bytes    ? "by packets"
                      : p2p_.ways().offers                   ? "into the receiver's buffer"
                                                             : "through the receiver's inbox";
    std::snprintf(out->reason, sizeof(out->reason), "%s, on %u SMs", how, out->processors);
    return SL_OK;
  }
  const std::optional<Choice> chosen = ChooseFor(op, rank_, size_, settings_, wishes_);
  if (!chosen) {
    std::snprintf(out->reason, sizeof(out->reason), "no family that this call allows can serve it");
    return SL_ERR_UNSUPPORTED;
  }
  const Choice& choice = *chosen;
  if (wishes_.NumberOf(op) == 0 && settings_.forced && settings_.strict && choice.family != settings_.family) {
    std::snprintf(out->reason, sizeof(out->reason), "%s cannot serve it, and gpu_family_only is set",
                  FamilyName(settings_.family));
    return SL_ERR_UNSUPPORTED;
  }
  out->processors = choice.blocks;
  out->time_ns = choice.time_ns;
  std::snprintf(out->reason, sizeof(out->reason), "%s on %u SMs%s%s", FamilyName(choice.family), choice.blocks,
                settings_.on_host ? ", through host memory" : "", choice.is_told ? ", as gpu_choices says" : "");
  return SL_OK;
}

kernels::Team CudaAlgorithm::TeamFor(uint64_t capture) const {
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

Args CudaAlgorithm::ArgsFor(const sl_op_t& op, const Choice& choice) const {
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
bool CudaAlgorithm::Ask(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses) const {
  return bytes != 0 && reach_ops_->addresses(reach_, memory, bytes, capture, out_addresses) == SL_OK;
}

Reach CudaAlgorithm::ReachFor(const sl_op_t& op, const Choice& choice) {
  constexpr uint64_t kUntouched = 1;
  Reach reach{};
  const uint64_t send_bytes = SendBytes(op, size_);
  const uint64_t recv_bytes = RecvBytes(op, size_);
  // Every rank would store where another still has to load.
  const bool swaps = op.kind == SL_OP_ALL_TO_ALL && Overlap(op.send, send_bytes, op.recv, recv_bytes);
  if (swaps || (choice.send_reached && !Ask(op.send, send_bytes, op.capture, reach.send)) ||
      (choice.recv_reached && !Ask(op.recv, recv_bytes, op.capture, reach.recv))) {
    ++out_of_reach_;
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

LongArgs CudaAlgorithm::LongArgsFor(const sl_op_t& op, const Choice& choice) {
  LongArgs args{ArgsFor(op, choice), choice.direct, {}};
  if (IsDirect(choice.family)) args.reach = ReachFor(op, choice);
  return args;
}

void CudaAlgorithm::FillGrid(uint32_t image, uint32_t kernel, uint32_t blocks, uint32_t threads,
                             sl_launch_t* out) const {
  out->image = images_[image];
  out->kernel = kernel;
  out->grid[0] = blocks;
  out->grid[1] = out->grid[2] = 1;
  out->block[0] = threads;
  out->block[1] = out->block[2] = 1;
  if (settings_.depends) out->flags |= SL_LAUNCH_DEPENDENT;  // all entry points begin with dev::AwaitEarlierGrids
}

sl_status_t CudaAlgorithm::Launch(const sl_op_t& op, void* args, sl_launch_t* out) {
  if (IsTransfer(op)) {
    const sl_status_t status = FillMail(&op, 1, args, out);
    return status != SL_ERR_LIMIT ? status : FillGroup<FewestMessages>(&op, 1, kFewest, args, out);
  }
  const Choice& choice = choices_.Of(op, wishes_.NumberOf(op), [&] {
    // Of what estimate() has allowed; a launch that nobody asked about before runs as any.
    return ChooseFor(op, rank_, size_, settings_, wishes_).value_or(Choose(op, rank_, size_, settings_));
  });
  ++operations_;
  if (choice.family == settings_.family) ++served_;
  KernelRef kernel = KernelFor(choice.family, HasReduction(op.kind), op.datatype);
  out->args = args;
  if (IsOneShot(choice.family) || IsTwoShot(choice.family)) {
    const Args& told = *new (args) Args(ArgsFor(op, choice));
    out->args_bytes = sizeof(Args);
    if (choice.family == Family::kOneShot && IsPrompt(told, choice.threads)) kernel.image = kPrompt;
  } else {
    new (args) LongArgs(LongArgsFor(op, choice));
    out->args_bytes = sizeof(LongArgs);
    if (HasReduction(op.kind)) out->shared_bytes = dev::Ahead::SharedBytes(choice.threads);
    if (choice.direct.in_bulk) out->shared_bytes = kernels::kBulkSharedBytes;
  }
  FillGrid(kernel.image, kernel.kernel, choice.blocks, choice.threads, out);
  return SL_OK;
}

template <typename GroupArgs>
sl_status_t CudaAlgorithm::FillMail(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args, sl_launch_t* out) {
  auto* group = new (args) GroupArgs;
  MailGrid grid{};
  if (sl_status_t status = mail_.Fill(ops, count, group, &grid); status != SL_OK) return status;
  group->team = TeamFor(ops[0].capture);
  operations_ += count;
  FillGrid(kP2p, kernel, grid.blocks, grid.threads, out);
  out->args = group;
  out->args_bytes = sizeof(GroupArgs);
  return SL_OK;
}

sl_status_t CudaAlgorithm::FillMail(const sl_op_t* ops, uint32_t count, void* args, sl_launch_t* out) {
  const sl_status_t status = FillMail<ShortArgs>(ops, count, kMailShort, args, out);
  return status == SL_ERR_LIMIT ? FillMail<AnyMailArgs>(ops, count, kMailAny, args, out) : status;
}

template <typename GroupArgs>
sl_status_t CudaAlgorithm::FillGroup(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args,
                                     sl_launch_t* out) {
  auto* group = new (args) GroupArgs;
  group->team = TeamFor(ops[0].capture);
  uint32_t blocks = 0;
  if (sl_status_t status = p2p_.Fill(ops, count, group, &blocks); status != SL_OK) return status;
  operations_ += count;
  if (settings_.family == Family::kStaged || settings_.family == Family::kDirect) served_ += count;
  FillGrid(kP2p, kernel, blocks, kernels::kThreads, out);
  out->args = group;
  out->args_bytes = sizeof(GroupArgs);
  return SL_OK;
}

sl_status_t CudaAlgorithm::LaunchGroup(const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
                                       sl_launch_t* out) {
  sl_status_t status = FillMail(ops, count, args, out);
  if (status == SL_ERR_LIMIT) status = FillGroup<FewestMessages>(ops, count, kFewest, args, out);
  if (status != SL_ERR_LIMIT) return status == SL_OK ? status : Refuse(status, 0);
  if (count <= FewMessages::kMost || capacity < sizeof(ManyMessages)) {
    status = FillGroup<FewMessages>(ops, count, kFew, args, out);
    return status == SL_OK ? status : Refuse(status, FewMessages::kMost);
  }
  status = FillGroup<ManyMessages>(ops, count, kMany, args, out);
  return status == SL_OK ? status : Refuse(status, ManyMessages::kMost);
}

// Says why.
sl_status_t CudaAlgorithm::Refuse(sl_status_t status, uint32_t most_messages) const {
  if (host == nullptr) return status;
  std::string text = "not only sends and receives, or one to the own rank without its other end";
  if (status == SL_ERR_LIMIT) {
    text = "more than a launch takes, which is " + std::to_string(most_messages) + " messages, on " +
           std::to_string(kernels::kP2pBlocks) + " blocks that wait for peers";
  }
  return host->set_error(host->ctx, status, text.c_str());
}

}  // namespace sl::algo_symmetric

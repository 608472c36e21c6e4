// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/host_algorithm.h"

#include <algorithm>
#include <cstdio>

#include "modules/algo-symmetric/transfer.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {
namespace {

// Costs of the host path: one line handed over between cores, and bytes through a core's load and store ports. Only
// their ratio to other algorithms' estimates matters; `starling bench` shows the real ones.
constexpr double kLineNs = 120;
constexpr double kBytesPerNs = 40;

const sl_host_kernel_t kKernels[] = {
    {"one_shot", RunOneShot, kFrameBytes, 0},
    {"pipelined", RunPipelined, kFrameBytes, 0},
};
static_assert(kOneShotKernel == 0 && kPipelinedKernel == 1);

uint64_t PublicationBytes(const sl_op_t& op, uint32_t size) {
  const bool blocks = op.kind == SL_OP_REDUCE_SCATTER || op.kind == SL_OP_ALL_TO_ALL || op.kind == SL_OP_SCATTER;
  return op.count * DatatypeBytes(op.datatype) * (blocks ? size : 1);
}

}  // namespace

HostAlgorithm::HostAlgorithm(const sl_host_t* host_of, const sl_algorithm_env_t& env, const Sizes& sizes)
    : sl_algorithm_t(host_of), device_ops_(env.device_ops), device_(env.device), sizes_(sizes) {
  view_.base = env.symmetric.base;
  view_.stride = env.symmetric.stride;
  view_.layout = Layout::Of(sizes);
  view_.rank = env.shape->rank;
  view_.size = env.shape->size;
}

HostAlgorithm::~HostAlgorithm() {
  if (image_ != nullptr) device_ops_->image_unload(device_, image_);
}

Status HostAlgorithm::LoadKernels() {
  const sl_image_desc_t desc{sizeof(desc), 2, kKernels, nullptr, 0, nullptr};
  if (sl_status_t status = device_ops_->image_load(device_, &desc, &image_); status != SL_OK) {
    return {status, "algo-symmetric: the device cannot load host kernels"};
  }
  for (uint32_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
    for (uint32_t reduction = 0; reduction < SL_REDUCTION_COUNT; ++reduction) {
      reduce_[type][reduction] = device_ops_->reduce_function(device_, type, reduction);
    }
  }
  return {};
}

bool HostAlgorithm::FitsOneShot(const sl_op_t& op) const {
  return PublicationBytes(op, view_.size) <= sizes_.small_bytes;
}

sl_status_t HostAlgorithm::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  const double bytes = static_cast<double>(PublicationBytes(op, view_.size));
  const double peers = view_.size - 1;
  out->processors = 0;
  out->scratch_bytes = 0;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = SL_RUN_LAUNCH;
  if (IsTransfer(op)) {
    std::snprintf(out->reason, sizeof(out->reason), "point to point needs a link, not symmetric memory");
    return SL_ERR_UNSUPPORTED;
  }
  const bool one_shot = FitsOneShot(op);
  // One-shot: publish, then read every peer. Two-shot reads 2 (n - 1) / n of the message, in two hand-overs.
  const double moved = one_shot ? bytes * (1 + peers) : bytes * (1 + 2 * peers / view_.size);
  const double lines = one_shot ? 1 + 0.25 * peers : 3 + peers;
  out->time_ns = static_cast<uint64_t>(lines * kLineNs + moved / kBytesPerNs);
  std::snprintf(out->reason, sizeof(out->reason), "%s over shared memory",
                one_shot ? "one-shot" : "pipelined two-shot");
  return SL_OK;
}

void HostAlgorithm::FillScale(const sl_op_t& op, Work* work) const {
  work->reduce = HasReduction(op.kind) ? reduce_[op.datatype][op.reduction] : nullptr;
  work->scales_sends = work->reduce != nullptr && op.reduction == SL_PREMUL_SUM;
  work->scale = {op.scalar_bits, view_.size, SL_REDUCE_FINAL, 0};
  work->scalar = op.scalar;
}

void HostAlgorithm::FillRounds(Work* work) {
  const Pattern& pattern = work->pattern;
  const uint64_t line = kLineBytes / work->element_bytes;
  // A piece of every block fits a stage slot, and a piece of one block fits a result slot.
  uint64_t piece = sizes_.stage_bytes / work->element_bytes / pattern.blocks;
  if (pattern.results_wanted) piece = std::min(piece, sizes_.result_bytes / work->element_bytes);
  work->piece_elements = std::max(piece / line * line, line);
  const uint64_t longest = std::min(pattern.block_elements, pattern.total_elements);
  work->rounds = (longest + work->piece_elements - 1) / work->piece_elements;
  work->first_round = rounds_;
  rounds_ += work->rounds;
}

sl_status_t HostAlgorithm::Launch(const sl_op_t& op, void* args, sl_launch_t* out) {
  Work* work = static_cast<Work*>(args);
  const bool one_shot = FitsOneShot(op);
  work->view = &view_;
  work->element_bytes = static_cast<uint32_t>(DatatypeBytes(op.datatype));
  work->pattern =
      one_shot ? OneShot(op, view_.rank, view_.size) : Pipelined(op, view_.rank, view_.size, work->element_bytes);
  work->send = static_cast<const uint8_t*>(op.send);
  work->recv = static_cast<uint8_t*>(op.recv);
  work->signature = op.signature;
  work->root = static_cast<uint32_t>(op.root);
  FillScale(op, work);
  if (one_shot) {
    work->epoch = ++epoch_;  // wraps; comparisons are modulo 2^32
  } else {
    FillRounds(work);
  }
  out->image = image_;
  out->kernel = one_shot ? kOneShotKernel : kPipelinedKernel;
  out->args = work;
  out->args_bytes = sizeof(Work);
  return SL_OK;
}

}  // namespace sl::algo_symmetric

// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/family_algorithm.h"

#include <cstdio>
#include <new>
#include <string>

#include "modules/algo-symmetric/kernels/packets/prompt.h"
#include "modules/algo-symmetric/transfer.h"
#include "sdk/datatype.h"

namespace sl::algo_symmetric {

using kernels::Args;
using kernels::LongArgs;

FamilyAlgorithm::FamilyAlgorithm(const sl_host_t* host_of, const Family& family, std::shared_ptr<CudaRank> rank,
                                 const CallBounds& bounds)
    : sl_algorithm_t(host_of), family_(family), rank_(std::move(rank)), bounds_(bounds) {}

FamilyAlgorithm::~FamilyAlgorithm() { TellServed(host, rank_->rank(), family_.name, served_, out_of_reach_); }

sl_status_t FamilyAlgorithm::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->scratch_bytes = 0;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = SL_RUN_LAUNCH;
  const GpuSettings settings = bounds_.Of(op, rank_->settings());
  const char* reason = IsTransfer(op)         ? "it serves collectives"
                       : !rank_->has_slices() ? "ranks share no slices"
                                              : family_.refuses(op, rank_->size(), settings);
  if (reason != nullptr) {
    std::snprintf(out->reason, sizeof(out->reason), "%s", reason);
    return SL_ERR_UNSUPPORTED;
  }
  const Choice choice = Cut(family_, op, rank_->rank(), rank_->size(), settings);
  out->processors = choice.blocks;
  out->time_ns = choice.time_ns;
  std::snprintf(out->reason, sizeof(out->reason), "%s on %u SMs%s", family_.words, choice.blocks,
                settings.on_host ? ", through host memory" : "");
  return SL_OK;
}

sl_status_t FamilyAlgorithm::Launch(const sl_op_t& op, void* args, sl_launch_t* out) {
  const Choice& choice = choices_.Of(op, bounds_.NumberOf(op), [&] {
    return Cut(family_, op, rank_->rank(), rank_->size(), bounds_.Of(op, rank_->settings()));
  });
  ++served_;
  KernelRef kernel = family_.kernel(HasReduction(op.kind), op.datatype);
  out->args = args;
  if (family_.is_packets()) {
    const Args& told = *new (args) Args(rank_->ArgsFor(op, choice));
    out->args_bytes = sizeof(Args);
    const bool may_be_prompt = family_.protocol == Protocol::kOneShot && !family_.is_lamport;
    if (may_be_prompt && kernels::IsPrompt(told, choice.threads)) kernel.image = kPrompt;
  } else {
    new (args) LongArgs(rank_->LongArgsFor(op, choice, &out_of_reach_));
    out->args_bytes = sizeof(LongArgs);
    if (HasReduction(op.kind)) out->shared_bytes = dev::Ahead::SharedBytes(choice.threads);
    if (choice.direct.in_bulk) out->shared_bytes = kernels::kBulkSharedBytes;
  }
  rank_->FillGrid(kernel.image, kernel.kernel, choice.blocks, choice.threads, out);
  return SL_OK;
}

Status FamilyAlgorithm::Retract(uint64_t deadline_ns) {
  return family_.is_direct && served_ != 0 ? rank_->Retract(deadline_ns) : Status();
}

void TellServed(const sl_host_t* host, uint32_t rank, const char* name, uint64_t served, uint64_t out_of_reach) {
  if (served == 0 || host == nullptr) return;
  const std::string text = "rank " + std::to_string(rank) + ": " + name + " served " + std::to_string(served) +
                           " operations, " + std::to_string(out_of_reach) + " with a buffer out of reach";
  host->log(host->ctx, SL_LOG_DEBUG, text.c_str());
}

}  // namespace sl::algo_symmetric

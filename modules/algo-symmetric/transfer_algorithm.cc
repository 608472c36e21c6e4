// SPDX-License-Identifier: Apache-2.0
#include "modules/algo-symmetric/transfer_algorithm.h"

#include <cstdio>
#include <new>
#include <string>

#include "modules/algo-symmetric/family_algorithm.h"
#include "modules/algo-symmetric/transfer.h"
#include "modules/algo-symmetric/transfer_cost.h"

namespace sl::algo_symmetric {

using kernels::AnyMailArgs;
using kernels::FewestMessages;
using kernels::FewMessages;
using kernels::ManyMessages;
using kernels::ShortArgs;

TransferAlgorithm::TransferAlgorithm(const sl_host_t* host_of, std::shared_ptr<CudaRank> rank)
    : sl_algorithm_t(host_of),
      rank_(std::move(rank)),
      p2p_(rank_->size(), rank_->reach_ops(), rank_->reach(), WaysOf(rank_->settings(), rank_->size()),
           rank_->settings().budget),
      mail_(rank_->rank(), rank_->size(), p2p_.ways(), rank_->settings().budget) {}

TransferAlgorithm::~TransferAlgorithm() { TellServed(host, rank_->rank(), kName, served_, p2p_.out_of_reach()); }

sl_status_t TransferAlgorithm::Estimate(const sl_op_t& op, sl_estimate_t* out) const {
  out->scratch_bytes = 0;
  out->determinism = SL_DETERMINISM_RANK;
  out->run = SL_RUN_LAUNCH;
  if (!IsTransfer(op) || !rank_->has_slices()) {
    std::snprintf(out->reason, sizeof(out->reason), "%s",
                  IsTransfer(op) ? "ranks share no slices" : "it serves sends and receives");
    return SL_ERR_UNSUPPORTED;
  }
  const uint64_t bytes = BytesOf(op);
  const P2pCost cost = CostOf(op, p2p_.ways(), rank_->size(), rank_->settings());
  out->processors = cost.blocks;
  out->time_ns = cost.time_ns;
  const char* how = op.peer == static_cast<int32_t>(rank_->rank()) ? "copied"
                    : bytes <= p2p_.ways().mailed_bytes            ? "by packets"
                    : p2p_.ways().offers                           ? "into the receiver's buffer"
                                                                   : "through the receiver's inbox";
  std::snprintf(out->reason, sizeof(out->reason), "%s, on %u SMs", how, out->processors);
  return SL_OK;
}

sl_status_t TransferAlgorithm::Launch(const sl_op_t& op, void* args, sl_launch_t* out) {
  const sl_status_t status = FillMail(&op, 1, args, out);
  return status != SL_ERR_LIMIT ? status : FillGroup<FewestMessages>(&op, 1, kFewest, args, out);
}

template <typename GroupArgs>
sl_status_t TransferAlgorithm::FillMail(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args,
                                        sl_launch_t* out) {
  auto* group = new (args) GroupArgs;
  MailGrid grid{};
  if (sl_status_t status = mail_.Fill(ops, count, group, &grid); status != SL_OK) return status;
  group->team = rank_->TeamFor(ops[0].capture);
  served_ += count;
  rank_->FillGrid(kP2p, kernel, grid.blocks, grid.threads, out);
  out->args = group;
  out->args_bytes = sizeof(GroupArgs);
  return SL_OK;
}

sl_status_t TransferAlgorithm::FillMail(const sl_op_t* ops, uint32_t count, void* args, sl_launch_t* out) {
  const sl_status_t status = FillMail<ShortArgs>(ops, count, kMailShort, args, out);
  return status == SL_ERR_LIMIT ? FillMail<AnyMailArgs>(ops, count, kMailAny, args, out) : status;
}

template <typename GroupArgs>
sl_status_t TransferAlgorithm::FillGroup(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args,
                                         sl_launch_t* out) {
  auto* group = new (args) GroupArgs;
  group->team = rank_->TeamFor(ops[0].capture);
  uint32_t blocks = 0;
  if (sl_status_t status = p2p_.Fill(ops, count, group, &blocks); status != SL_OK) return status;
  served_ += count;
  rank_->FillGrid(kP2p, kernel, blocks, kernels::kThreads, out);
  out->args = group;
  out->args_bytes = sizeof(GroupArgs);
  return SL_OK;
}

sl_status_t TransferAlgorithm::LaunchGroup(const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity,
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

Status TransferAlgorithm::Retract(uint64_t deadline_ns) {
  return served_ != 0 ? rank_->Retract(deadline_ns) : Status();
}

// Says why.
sl_status_t TransferAlgorithm::Refuse(sl_status_t status, uint32_t most_messages) const {
  if (host == nullptr) return status;
  std::string text = "not only sends and receives, or one to the own rank without its other end";
  if (status == SL_ERR_LIMIT) {
    text = "more than a launch takes, which is " + std::to_string(most_messages) + " messages, on " +
           std::to_string(kernels::kP2pBlocks) + " blocks that wait for peers";
  }
  return host->set_error(host->ctx, status, text.c_str());
}

}  // namespace sl::algo_symmetric

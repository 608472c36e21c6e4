// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives on a GPU as an algorithm. How a message goes (short packets, Lamport packets, into the receiver's
// buffer, through its inbox) is a fact of its size and of buffers, not of selection, so that all transfers of a group
// are one launch.
#pragma once

#include <memory>

#include "modules/algo-symmetric/algorithm.h"
#include "modules/algo-symmetric/cuda_rank.h"
#include "modules/algo-symmetric/mail_group.h"
#include "modules/algo-symmetric/p2p_group.h"

namespace sl::algo_symmetric {

class TransferAlgorithm final : public sl_algorithm_t {
 public:
  static constexpr char kName[] = "symmetric_p2p";  // of its provider

  TransferAlgorithm(const sl_host_t* host_of, std::shared_ptr<CudaRank> rank);
  // Says how much it has served.
  ~TransferAlgorithm() override;

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const override;
  sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out) override;
  sl_status_t LaunchGroup(const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity, sl_launch_t* out) override;
  Status Retract(uint64_t deadline_ns) override;

 private:
  template <typename GroupArgs>
  sl_status_t FillMail(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args, sl_launch_t* out);
  sl_status_t FillMail(const sl_op_t* ops, uint32_t count, void* args, sl_launch_t* out);
  template <typename GroupArgs>
  sl_status_t FillGroup(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args, sl_launch_t* out);
  sl_status_t Refuse(sl_status_t status, uint32_t most_messages) const;

  const std::shared_ptr<CudaRank> rank_;  // with the other algorithms of the communicator
  P2pGroup p2p_;
  MailGroup mail_;
  uint64_t served_ = 0;
};

}  // namespace sl::algo_symmetric

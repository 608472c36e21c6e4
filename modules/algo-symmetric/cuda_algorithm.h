// SPDX-License-Identifier: Apache-2.0
//
// On GPUs: launches of the kernels in kernels/. A launch is a pure function of the operation, and of where peers see
// its buffers: counters live in device memory, so that captured graphs replay.
#pragma once

#include <cstdint>

#include "modules/algo-symmetric/algorithm.h"
#include "modules/algo-symmetric/call_choice.h"
#include "modules/algo-symmetric/choice.h"
#include "modules/algo-symmetric/choice_cache.h"
#include "modules/algo-symmetric/image_shelf.h"
#include "modules/algo-symmetric/kernels/args.h"
#include "modules/algo-symmetric/mail_group.h"
#include "modules/algo-symmetric/p2p_group.h"
#include "sdk/status.h"

namespace sl::algo_symmetric {

class CudaAlgorithm final : public sl_algorithm_t {
 public:
  // Of each slice, for this many ranks; settings as on their communicator.
  static uint64_t SliceBytes(uint32_t ranks, const GpuSettings& settings);

  CudaAlgorithm(const sl_host_t* host_of, const sl_algorithm_env_t& env, const GpuSettings& settings);
  ~CudaAlgorithm() override;

  // Before the first launch; `shelf` outlives that.
  Status LoadKernels(ImageShelf* shelf);
  // For tests: starts all counters whose low half wraps at settings.first_epoch. Before the first operation, on all
  // ranks.
  Status WindCounters();
  // Zeros, in peers' slices, where they were told of callers' buffers.
  Status Retract(uint64_t deadline_ns) override;
  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const override;
  sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out) override;
  sl_status_t LaunchGroup(const sl_op_t* ops, uint32_t count, void* args, uint32_t capacity, sl_launch_t* out) override;

  // The arguments of `op`, cut as chosen.
  kernels::Args ArgsFor(const sl_op_t& op, const Choice& choice) const;
  kernels::LongArgs LongArgsFor(const sl_op_t& op, const Choice& choice);
  const GpuSettings& settings() const { return settings_; }

 private:
  kernels::Team TeamFor(uint64_t capture) const;
  kernels::Reach ReachFor(const sl_op_t& op, const Choice& choice);
  bool Ask(const void* memory, uint64_t bytes, uint64_t capture, uint64_t* out_addresses) const;
  void FillGrid(uint32_t image, uint32_t kernel, uint32_t blocks, uint32_t threads, sl_launch_t* out) const;
  template <typename GroupArgs>
  sl_status_t FillMail(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args, sl_launch_t* out);
  sl_status_t FillMail(const sl_op_t* ops, uint32_t count, void* args, sl_launch_t* out);
  template <typename GroupArgs>
  sl_status_t FillGroup(const sl_op_t* ops, uint32_t count, uint32_t kernel, void* args, sl_launch_t* out);
  sl_status_t Refuse(sl_status_t status, uint32_t most_messages) const;

  const sl_device_ops_t* device_ops_;
  sl_device_t* device_;
  ImageSet images_{};  // of a shelf
  const sl_symmetric_t symmetric_;
  const GpuSettings settings_;
  const kernels::LaneLayout layout_;
  sl_control_t* const control_;
  const sl_reach_ops_t* const reach_ops_;  // NULL: peers reach nothing of callers
  sl_reach_t* const reach_;
  const CallWishes wishes_;
  const uint32_t rank_;
  const uint32_t size_;
  ChoiceCache choices_;
  P2pGroup p2p_;
  MailGroup mail_;
  // Where a family is forced: operations so far, those that it could serve, and those of them that had a buffer of this
  // rank out of reach.
  uint64_t operations_ = 0;
  uint64_t served_ = 0;
  uint64_t out_of_reach_ = 0;
};

}  // namespace sl::algo_symmetric

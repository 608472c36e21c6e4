// SPDX-License-Identifier: Apache-2.0
//
// On host memory: costs, the choice between one-shot and pipelined, launches.
#pragma once

#include "modules/algo-symmetric/algorithm.h"
#include "modules/algo-symmetric/work.h"
#include "sdk/status.h"

namespace sl::algo_symmetric {

class HostAlgorithm final : public sl_algorithm_t {
 public:
  HostAlgorithm(const sl_host_t* host_of, const sl_algorithm_env_t& env, const Sizes& sizes);
  ~HostAlgorithm() override;

  Status LoadKernels();
  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const override;
  // Issue order numbers the epochs and rounds.
  sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out) override;

 private:
  bool FitsOneShot(const sl_op_t& op) const;
  void FillScale(const sl_op_t& op, Work* work) const;
  void FillRounds(Work* work);

  const sl_device_ops_t* device_ops_;
  sl_device_t* device_;
  sl_image_t* image_ = nullptr;
  Sizes sizes_;
  View view_;
  sl_reduce_fn reduce_[SL_DATATYPE_COUNT][SL_REDUCTION_COUNT] = {};
  uint32_t epoch_ = 0;
  uint64_t rounds_ = 0;
};

}  // namespace sl::algo_symmetric

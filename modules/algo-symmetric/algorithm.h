// SPDX-License-Identifier: Apache-2.0
//
// The symmetric algorithm of one rank: costs, the choice between one-shot and pipelined, launches.
#pragma once

#include <string>

#include "modules/algo-symmetric/work.h"
#include "sdk/status.h"

// Opaque in the ABI; defined here.
struct sl_algorithm_t {
 public:
  sl_algorithm_t(const sl_host_t* host_of, const sl_algorithm_env_t& env, const sl::algo_symmetric::Sizes& sizes);
  ~sl_algorithm_t();
  sl_algorithm_t(const sl_algorithm_t&) = delete;
  sl_algorithm_t& operator=(const sl_algorithm_t&) = delete;

  sl::Status LoadKernels();
  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  // [data]; operations are launched in issue order, which numbers their epochs and rounds alike on all ranks.
  sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out);

  const sl_host_t* const host;

 private:
  bool FitsOneShot(const sl_op_t& op) const;
  void FillScale(const sl_op_t& op, sl::algo_symmetric::Work* work) const;
  void FillRounds(sl::algo_symmetric::Work* work);

  const sl_device_ops_t* device_ops_;
  sl_device_t* device_;
  sl_image_t* image_ = nullptr;
  sl::algo_symmetric::Sizes sizes_;
  sl::algo_symmetric::View view_;
  sl_reduce_fn reduce_[SL_DATATYPE_COUNT][SL_REDUCTION_COUNT] = {};
  uint32_t epoch_ = 0;
  uint64_t rounds_ = 0;
};

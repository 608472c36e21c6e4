// SPDX-License-Identifier: Apache-2.0
//
// One family of kernels on a GPU as an algorithm: collectives, launched as the family cuts them.
#pragma once

#include <memory>

#include "modules/algo-symmetric/algorithm.h"
#include "modules/algo-symmetric/call_bounds.h"
#include "modules/algo-symmetric/choice_cache.h"
#include "modules/algo-symmetric/cuda_rank.h"
#include "modules/algo-symmetric/families/family.h"

namespace sl::algo_symmetric {

class FamilyAlgorithm final : public sl_algorithm_t {
 public:
  FamilyAlgorithm(const sl_host_t* host_of, const Family& family, std::shared_ptr<CudaRank> rank,
                  const CallBounds& bounds = {});
  // Says how much it has served.
  ~FamilyAlgorithm() override;

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const override;
  // Only of operations that have an estimate.
  sl_status_t Launch(const sl_op_t& op, void* args, sl_launch_t* out) override;
  Status Retract(uint64_t deadline_ns) override;

 private:
  const Family& family_;
  const std::shared_ptr<CudaRank> rank_;  // with the other algorithms of the communicator
  const CallBounds bounds_;
  ChoiceCache choices_;
  uint64_t served_ = 0;
  uint64_t out_of_reach_ = 0;  // of those: a buffer of this rank was
};

// For people, when an algorithm goes: "rank 1: symmetric_direct served 12 operations, 3 with a buffer out of reach".
void TellServed(const sl_host_t* host, uint32_t rank, const char* name, uint64_t served, uint64_t out_of_reach);

}  // namespace sl::algo_symmetric

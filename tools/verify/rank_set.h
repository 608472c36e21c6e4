// SPDX-License-Identifier: Apache-2.0
//
// One algorithm, made for every rank of a communicator that exists on paper only, and its plans.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel/plan/plan.h"
#include "sl_algorithm.h"
#include "sl_device.h"
#include "tools/verify/rotation.h"
#include "tools/verify/verify.h"

namespace sl::verify {

// One provider of sl.algorithm/1, and the host device that its objects are made with. The tables, the instance and the
// device outlive everything made from it.
struct Algorithm {
  std::string name;    // what profiles call it: "ring"
  std::string module;  // "algo-ring"
  const sl_algorithm_ops_t* ops = nullptr;
  sl_instance_t* instance = nullptr;
  const sl_device_ops_t* device_ops = nullptr;
  sl_device_t* device = nullptr;
};

// What all ranks of a communicator are told alike: one host, and links as the profile has them.
struct CommShape {
  uint32_t ranks = 2;
  uint32_t link_chunk_bytes = 131072;
  uint32_t link_lanes = 2;
  uint32_t link_slots = 8;
  std::vector<uint32_t> host_of = {};  // by rank, numbered from 0 without gaps; empty: all on one host
};

// Plans of all ranks for one operation, and the case they make.
struct PlanSet {
  std::vector<std::unique_ptr<kernel::Plan>> plans;  // by rank; NULL: takes no part
  Case test;
};

class RankSet {
 public:
  // returns: SL_ERR_UNSUPPORTED the algorithm is not for this shape | what create() returned
  static Result<std::unique_ptr<RankSet>> Create(const Algorithm& algorithm, const CommShape& shape);
  ~RankSet();
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  // As rank 0 estimates.   returns: SL_OK | SL_ERR_UNSUPPORTED, with the reason in `out`
  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  // The plans of a collective.   returns: what plan() or the builder said, with the rank named
  Result<PlanSet> MakePlans(const sl_op_t& op) const;
  // The plans of a send and its receive.
  Result<PlanSet> MakePair(const sl_op_t& send, uint32_t from, uint32_t to) const;

  // The plan of rank 0 where those of all ranks are rotations of it, and the case that it stands for; none where they
  // are not, or where there is no plan. The other plans are compared as they are made, and not kept.
  std::optional<PlanSet> MakeFolded(const sl_op_t& op) const;
  // Whether the plans for `op` are those of `base`, rotated.
  bool AreRotations(const Case& base, const sl_op_t& op, const Rotation& rotation) const;
  // The same for a send and its receive: `base` is the one from rank 0.
  bool IsRotatedPair(const Case& base, const sl_op_t& send, uint32_t to, const Rotation& rotation) const;

  uint32_t ranks() const { return shape_.ranks; }

 private:
  RankSet(const Algorithm& algorithm, const CommShape& shape)
      : name_(algorithm.name), ops_(algorithm.ops), shape_(shape) {}
  Status MakeRanks(const Algorithm& algorithm);
  Status AddPlan(uint32_t rank, const sl_op_t& op, PlanSet* set) const;
  bool IsRotation(uint32_t rank, const sl_op_t& op, const kernel::Plan& base, const Rotation& rotation) const;

  const std::string name_;
  const sl_algorithm_ops_t* const ops_;
  const CommShape shape_;
  std::vector<std::string> host_names_;
  std::vector<const char*> hosts_;       // by rank
  std::vector<sl_comm_shape_t> shapes_;  // of each rank; algorithms keep pointers to them
  std::vector<sl_algorithm_t*> algorithms_;
  void* memory_ = nullptr;  // symmetric, of all ranks; touched only where an algorithm does
  uint64_t memory_bytes_ = 0;
};

}  // namespace sl::verify

// SPDX-License-Identifier: Apache-2.0
//
// One operation on N ranks, planned by a module, run by the engine over links in memory, and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/engine/plan_world_test_util.h"
#include "sl_algorithm.h"

namespace sl::kernel {

// The algo-ring module, opened with its default options.
class RingModule {
 public:
  RingModule();
  ~RingModule();
  RingModule(const RingModule&) = delete;
  RingModule& operator=(const RingModule&) = delete;

  const sl_algorithm_ops_t* family(const std::string& name) const;
  sl_instance_t* instance() const { return instance_; }

 private:
  const sl_module_t* module_ = nullptr;
  sl_instance_t* instance_ = nullptr;
};

// One rank's algorithm.
class RankAlgorithm {
 public:
  RankAlgorithm(const RingModule& module, const std::string& family, const sl_comm_shape_t& shape);
  ~RankAlgorithm();
  RankAlgorithm(const RankAlgorithm&) = delete;
  RankAlgorithm& operator=(const RankAlgorithm&) = delete;

  bool Serves(const sl_op_t& op, sl_estimate_t* out_estimate) const;
  Result<std::unique_ptr<Plan>> MakePlan(const sl_op_t& op) const;

 private:
  const sl_algorithm_ops_t* ops_;
  sl_comm_shape_t shape_;
  sl_algorithm_t* algorithm_ = nullptr;
};

struct PlanCase {
  std::string family = "ring";
  uint32_t ranks = 2;
  sl_op_kind_t kind = SL_OP_ALL_REDUCE;
  sl_datatype_t datatype = SL_INT64;
  sl_reduction_t reduction = SL_SUM;
  uint64_t count = 0;
  int32_t root = -1;
  bool in_place = false;
  uint32_t chunk_bytes = 256;
  uint32_t first = 0;    // rank polled first
  uint32_t repeats = 1;  // the same operation again, all started at once

  std::string ToString() const;
};

sl_comm_shape_t ShapeOf(uint32_t rank, uint32_t ranks, uint32_t chunk_bytes);
sl_op_t OpOf(const PlanCase& test);

// Runs the case on links of exactly the slots its plans declare. "" when every element of every rank is right, nothing
// else was written, the links are empty and, for reductions, all ranks have the same bits.
std::string RunCase(const RingModule& module, const PlanCase& test);

// False when the family does not serve the operation.
bool IsServed(const RingModule& module, const PlanCase& test);

}  // namespace sl::kernel

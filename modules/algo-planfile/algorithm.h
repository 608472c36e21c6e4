// SPDX-License-Identifier: Apache-2.0
//
// The algorithm of one rank: which plan file serves an operation, what that costs, and its steps for this rank.
#pragma once

#include <string>
#include <vector>

#include "plan_file.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_planfile {

struct CostOptions {
  uint64_t latency_ns;        // from a put to the end of the wait for it
  uint64_t bytes_per_second;  // that one rank handles, reduction included
};

// Why `plan` does not serve `op` on a communicator of this shape; "" when it does. Equal on all ranks.
std::string WhyNot(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape);

// The first of `plans` that serves `op`; NULL, with the reason of the one that came nearest, when none does.
const PlanFile* FindPlan(const std::vector<PlanFile>& plans, const sl_op_t& op, const sl_comm_shape_t& shape,
                         std::string* out_reason);

// Expected time of `op` in ns.
uint64_t TimeOf(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape, const CostOptions& options);

// Tells the builder the plan of rank shape.rank.   returns: what the builder answers; it has set the text
Status WritePlan(const PlanFile& plan, const sl_op_t& op, const sl_comm_shape_t& shape,
                 const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder);

}  // namespace sl::algo_planfile

struct sl_algorithm_t {
  // Borrows all of it as long as it lives.
  sl_algorithm_t(const sl_host_t* host_of, const sl_comm_shape_t& shape,
                 const std::vector<sl::algo_planfile::PlanFile>& plans, const sl::algo_planfile::CostOptions& cost)
      : host(host_of), shape_(shape), plans_(plans), cost_(cost) {}

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  sl::Status Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const;

  const sl_host_t* const host;

 private:
  const sl_comm_shape_t& shape_;
  const std::vector<sl::algo_planfile::PlanFile>& plans_;
  const sl::algo_planfile::CostOptions& cost_;
};

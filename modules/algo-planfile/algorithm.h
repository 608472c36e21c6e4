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

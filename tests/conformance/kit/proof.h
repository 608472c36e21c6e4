// SPDX-License-Identifier: Apache-2.0
//
// Proof of plans, for the suite of algorithms; what is behind it is `starling verify`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sl_algorithm.h"

namespace sl::conform {

// One rank's part in the operation that is to be proved.
struct RankToProve {
  const sl_comm_shape_t* shape;
  sl_op_t op;
  // Calls the algorithm's plan() with this builder.
  std::function<sl_status_t(const sl_plan_builder_ops_t* builder_ops, sl_plan_builder_t* builder)> plan;
};

// "" when the ranks' plans are legal and do what the operation asks for, whatever the interleaving; else what is wrong,
// over several lines. `determinism` is the class that the algorithm declares.
std::string ProvePlans(const std::vector<RankToProve>& ranks, bool in_place, uint32_t determinism);

}  // namespace sl::conform

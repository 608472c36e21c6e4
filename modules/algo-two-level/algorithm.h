// SPDX-License-Identifier: Apache-2.0
//
// The two-level algorithm of one rank: what it serves, at what cost, and by which plan.
#pragma once

#include <cstdint>

#include "plans.h"
#include "sdk/link_cost.h"
#include "sdk/status.h"
#include "shape.h"
#include "sl_algorithm.h"

struct sl_algorithm_t {
  sl_algorithm_t(const sl_host_t* host, const sl_comm_shape_t& shape, const sl::LinkCost& cost);

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  sl::Status Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const;

  const sl_host_t* const host;

 private:
  const char* Refuses(const sl_op_t& op) const;
  sl::algo_two_level::Work WorkOf(const sl_op_t& op) const;
  uint64_t TimeOf(const sl::algo_two_level::Work& work) const;
  // Blocks that must fit a chunk together; 0: they need not.
  uint32_t BundledBlocks(sl_op_kind_t kind) const;
  // Whether an all-reduce goes by exchange, rather than round a ring of hosts.
  bool Exchanges(const sl_op_t& op) const;

  const sl::algo_two_level::Shape shape_;
  const sl::LinkCost cost_;
};

// SPDX-License-Identifier: Apache-2.0
//
// One algorithm of one rank: a family of plans (ring, tree, direct) with what its costs and plans depend on.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "cost.h"
#include "pieces.h"
#include "sdk/plan_writer.h"
#include "sdk/status.h"
#include "sl_algorithm.h"

namespace sl::algo_ring {

class Family {
 public:
  explicit Family(const Shape& shape) : shape_(shape) {}
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  // Why this family does not serve the operation; NULL when it does. Equal on all ranks.
  virtual const char* Refuses(const sl_op_t& op, const CostOptions& options) const = 0;
  // What the slowest rank does; for operations that are served.
  virtual Work WorkOf(const sl_op_t& op) const = 0;
  // How it is done, in a few words.
  virtual const char* Method(const sl_op_t& op) const = 0;
  virtual uint64_t ScratchBytes(const sl_op_t& /*op*/) const { return 0; }
  virtual void Write(const sl_op_t& op, PlanWriter* writer) const = 0;

 protected:
  const Shape shape_;
};

std::unique_ptr<Family> MakeRing(const Shape& shape);    // ring.cc
std::unique_ptr<Family> MakeTree(const Shape& shape);    // tree.cc
std::unique_ptr<Family> MakeDirect(const Shape& shape);  // direct.cc

uint64_t ElementBytes(const sl_op_t& op);

}  // namespace sl::algo_ring

struct sl_algorithm_t {
  // `host_of` gives words to errors of plan().
  sl_algorithm_t(const sl_host_t* host_of, std::unique_ptr<sl::algo_ring::Family> family_of,
                 const sl::algo_ring::Shape& shape_of, const sl::algo_ring::CostOptions& cost_options)
      : host(host_of),
        family(std::move(family_of)),
        options(cost_options),
        cost(shape_of, cost_options.link),
        shape(shape_of) {}

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  sl::Status Plan(const sl_op_t& op, const sl_plan_builder_ops_t* ops, sl_plan_builder_t* builder) const;

  const sl_host_t* const host;
  const std::unique_ptr<sl::algo_ring::Family> family;
  const sl::algo_ring::CostOptions options;
  const sl::algo_ring::CostModel cost;
  const sl::algo_ring::Shape shape;
};

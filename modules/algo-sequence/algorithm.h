// SPDX-License-Identifier: Apache-2.0
//
// The parts of one rank: an all-reduce is a reduce-scatter into the receive buffer, where every rank's block belongs,
// and an all-gather of the blocks in place; what blocks of whole lines leave over is an all-reduce of its own (Thakur,
// Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005, section 4.5).
#pragma once

#include <cstdint>
#include <span>

#include "sdk/status.h"
#include "sl_algorithm.h"

struct sl_algorithm_t {
  sl_algorithm_t(const sl_host_t* its_host, uint32_t rank, uint32_t size) : host(its_host), rank_(rank), size_(size) {}

  sl_status_t Estimate(const sl_op_t& op, sl_estimate_t* out) const;
  // `out_parts` holds SL_MOST_PARTS.
  sl::Status Parts(const sl_op_t& op, std::span<sl_part_t> out_parts, uint32_t* out_count) const;

  const sl_host_t* const host;

 private:
  // NULL: it is served.
  const char* Refuses(const sl_op_t& op) const;
  // Elements of a rank's block; 0: there are too few.
  uint64_t BlockOf(const sl_op_t& op) const;

  const uint32_t rank_;
  const uint32_t size_;
};

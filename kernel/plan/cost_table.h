// SPDX-License-Identifier: Apache-2.0
//
// What the profile's measured costs say of one communicator.
//
// Between two measured sizes a time is interpolated linearly: by Hockney's model, t = latency + bytes / bandwidth (R.
// W. Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994), that is exact as long as an
// algorithm keeps its way of working between the two. Below the smallest and above the largest size, and for other
// numbers of ranks or hosts, nothing is known, and nothing is made up. All arithmetic is on integers: every rank gets
// the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/plan/spread.h"
#include "kernel/profile/measured.h"

namespace sl::kernel {

class CostTable {
 public:
  // `measured` lives as long as the table; NULL: nothing was measured.
  CostTable(const Measured* measured, const sl_comm_shape_t& shape, const Spread& spread);

  // Whether the profile has measured costs at all.
  bool exists() const { return measured_ != nullptr && !measured_->place.empty(); }

  // Nothing where it was not measured.
  std::optional<uint64_t> TimeNs(sl_op_kind_t op, std::string_view algorithm, uint64_t bytes) const;

  // For people: where the costs stand and on what they were measured.
  std::string Origin() const;
  // For people, where no algorithm has a time: what was measured instead of `op` of `bytes`.
  std::string Absence(sl_op_kind_t op, uint64_t bytes) const;

 private:
  const Measured* measured_;
  const uint32_t ranks_;
  const Spread spread_;
  std::vector<const CostCurve*> curves_;  // those of communicators like this one
};

}  // namespace sl::kernel

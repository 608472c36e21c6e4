// SPDX-License-Identifier: Apache-2.0
//
// [measured]: what operations took on a machine, by algorithm and size, as `starling bench --tune` writes it. Where it
// speaks, selection goes by it instead of by what algorithms estimate of themselves (kernel/plan/cost_table.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sl_algorithm.h"

namespace sl::kernel {

inline constexpr uint64_t kMeasuredVersion = 1;  // of the section's form

struct CostPoint {
  uint64_t bytes = 0;  // of the operation, as selection counts them (OpBytes)
  uint64_t time_ns = 0;
};

// One [[measured.cost]]: an algorithm's times for an operation on communicators of one form.
struct CostCurve {
  sl_op_kind_t op = SL_OP_KIND_COUNT;  // SL_OP_SEND stands for receives, too: both ends choose alike
  uint32_t device_kind = 0;            // SL_DEVICE_…
  uint32_t hosts = 1;
  uint32_t ranks = 0;  // spread evenly over the hosts
  std::string algorithm;
  std::vector<CostPoint> points;  // at least one, bytes ascending
  std::string place;              // file:line:column of the table
};

struct Measured {
  // For people; ranks may differ in it.
  std::string machine;
  std::string date;
  std::string starling;              // version
  std::string datatype;              // that was measured; the curves serve all
  std::vector<std::string> modules;  // "name version", all that could have served
  std::string place;                 // of the section; "": the profile has none

  std::vector<CostCurve> costs;  // in the order of their fields
};

// The section as TOML, ending in a newline; "" when there is none. Reads back as it was.
std::string MeasuredToml(const Measured& measured);
// The part of it that decides: equal on two ranks exactly when they choose alike by it.
std::string CostsToml(const Measured& measured);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
#include "kernel/plan/cost_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "sdk/datatype.h"

namespace sl::kernel {
namespace {

// Both ends of a transfer choose by the same curve.
sl_op_kind_t CurveOf(sl_op_kind_t op) { return op == SL_OP_RECV ? SL_OP_SEND : op; }

// Times are below 2^42 ns and sizes at most 2^48 bytes, so the product needs 90 bits.
uint64_t Between(const CostPoint& low, const CostPoint& high, uint64_t bytes) {
  const __int128 rise = static_cast<__int128>(high.time_ns) - static_cast<__int128>(low.time_ns);
  const __int128 share =
      rise * static_cast<__int128>(bytes - low.bytes) / static_cast<__int128>(high.bytes - low.bytes);
  return static_cast<uint64_t>(static_cast<__int128>(low.time_ns) + share);
}

}  // namespace

CostTable::CostTable(const Measured* measured, const sl_comm_shape_t& shape, const Spread& spread)
    : measured_(measured), ranks_(shape.size), spread_(spread) {
  if (measured == nullptr || !spread.even()) return;
  for (const CostCurve& curve : measured->costs) {
    if (curve.ranks == shape.size && curve.hosts == spread.hosts && curve.device_kind == shape.device_kind) {
      curves_.push_back(&curve);
    }
  }
}

std::optional<uint64_t> CostTable::TimeNs(sl_op_kind_t op, std::string_view algorithm, uint64_t bytes) const {
  const auto found = std::find_if(curves_.begin(), curves_.end(), [&](const CostCurve* curve) {
    return curve->op == CurveOf(op) && curve->algorithm == algorithm;
  });
  if (found == curves_.end()) return std::nullopt;
  const std::vector<CostPoint>& points = (*found)->points;
  const auto high = std::lower_bound(points.begin(), points.end(), bytes,
                                     [](const CostPoint& point, uint64_t wanted) { return point.bytes < wanted; });
  if (high == points.end()) return std::nullopt;
  if (high->bytes == bytes) return high->time_ns;
  if (high == points.begin()) return std::nullopt;
  return Between(*(high - 1), *high, bytes);
}

std::string CostTable::Origin() const {
  std::string machine = measured_->machine.empty() ? "a machine that is not named" : measured_->machine;
  if (!measured_->date.empty()) machine += ", " + measured_->date;
  return fmt::format("{}: {}", measured_->place, machine);
}

std::string CostTable::Absence(sl_op_kind_t op, uint64_t bytes) const {
  const char* name = OpKindName(CurveOf(op));
  if (!spread_.even())
    return fmt::format("nothing is measured for hosts with {} to {} ranks", spread_.fewest, spread_.most);
  uint64_t least = UINT64_MAX;
  uint64_t most = 0;
  for (const CostCurve* curve : curves_) {
    if (curve->op != CurveOf(op)) continue;
    least = std::min(least, curve->points.front().bytes);
    most = std::max(most, curve->points.back().bytes);
  }
  if (least > most) {
    return fmt::format("{} over {} ranks on {} host{} was not measured", name, ranks_, spread_.hosts,
                       spread_.hosts == 1 ? "" : "s");
  }
  if (bytes < least || bytes > most) {
    return fmt::format("{} was measured from {} to {} bytes", name, least, most);
  }
  return fmt::format("no algorithm that can serve this {} was measured", name);
}

}  // namespace sl::kernel

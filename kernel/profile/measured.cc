// SPDX-License-Identifier: Apache-2.0
#include "kernel/profile/measured.h"

#include <fmt/format.h>

#include "kernel/profile/settings.h"
#include "kernel/profile/value.h"
#include "sdk/datatype.h"

namespace sl::kernel {

std::string CostsToml(const Measured& measured) {
  std::string out;
  for (const CostCurve& curve : measured.costs) {
    out += fmt::format("\n[[measured.cost]]\nop = \"{}\"\ndevice = \"{}\"\nhosts = {}\nranks = {}\nalgorithm = {}\n",
                       OpKindName(curve.op), kDeviceKindNames[curve.device_kind], curve.hosts, curve.ranks,
                       QuoteToml(curve.algorithm));
    std::string points;
    for (const CostPoint& point : curve.points) {
      points += fmt::format("{}[{}, {}]", points.empty() ? "" : ", ", point.bytes, point.time_ns);
    }
    out += fmt::format("points = [{}]\n", points);
  }
  return out;
}

std::string MeasuredToml(const Measured& measured) {
  if (measured.place.empty()) return "";
  std::string modules;
  for (const std::string& module : measured.modules) modules += (modules.empty() ? "" : ", ") + QuoteToml(module);
  return fmt::format(
             "[measured]\nversion = {}\nmachine = {}\ndate = {}\nstarling = {}\ndatatype = {}\nmodules = [{}]\n",
             kMeasuredVersion, QuoteToml(measured.machine), QuoteToml(measured.date), QuoteToml(measured.starling),
             QuoteToml(measured.datatype), modules) +
         CostsToml(measured);
}

}  // namespace sl::kernel

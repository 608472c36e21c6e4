// SPDX-License-Identifier: Apache-2.0
// The drawings of the report: SVG text whose colours come from CSS variables of the page, so that one drawing serves
// light and dark.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/starling/report_model.h"

namespace sl::tools {

// The axes that all panels share, so that they compare at a glance. Decades of microseconds and of GB/s, powers of two
// of bytes.
struct ReportScale {
  double low_bytes = 8, high_bytes = 1024;
  int low_us = 0, high_us = 1;  // exponents of ten
  int low_bw = 0, high_bw = 1;
};
ReportScale ScaleOf(const Report& report);

// Which of the page's categorical colours each algorithm has, in order of first use.
std::map<std::string, int> ColoursOf(const Report& report);
inline constexpr int kCategoricalColours = 8;

// Latency above, bus bandwidth below, and between them a ribbon coloured by the algorithm that served each size.
std::string PanelSvg(const ReportPanel& panel, const ReportScale& scale, const std::map<std::string, int>& colours);

// &, <, >, quotes.
std::string Escaped(const std::string& text);

}  // namespace sl::tools

// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/report_model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace sl::tools {
namespace {

// Three significant digits, no exponent: "0.296", "2.96", "29.6", "296".
std::string Significant(double value) {
  char text[32];
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
  snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

ReportHalf HalfOf(const nlohmann::json& json) {
  ReportHalf half;
  if (!json.is_object()) return half;
  half.measured = true;
  half.time_us = json.value("time_us", 0.0);
  half.busbw = json.value("bus_bw", 0.0);
  half.low_us = half.high_us = half.time_us;
  for (double sample : json.value("samples_us", std::vector<double>())) {
    half.low_us = std::min(half.low_us, sample);
    half.high_us = std::max(half.high_us, sample);
  }
  if (json.contains("nwrong") && json["nwrong"].is_number()) half.wrong = json["nwrong"].get<uint64_t>();
  return half;
}

}  // namespace

std::string ReportPoint::ServedText() const {
  if (algorithm.empty()) return module;
  return module.empty() ? algorithm : algorithm + " in " + module;
}

uint64_t Report::Wrong() const {
  uint64_t wrong = 0;
  for (const ReportPanel& panel : panels) {
    for (const ReportPoint& point : panel.points) wrong += point.out_of_place.wrong + point.in_place.wrong;
  }
  return wrong;
}

size_t Report::Points() const {
  size_t points = 0;
  for (const ReportPanel& panel : panels) {
    for (const ReportPoint& point : panel.points) points += point.out_of_place.measured + point.in_place.measured;
  }
  return points;
}

bool Report::Good() const {
  bool failed =
      std::any_of(panels.begin(), panels.end(), [](const ReportPanel& panel) { return !panel.failure.empty(); });
  return !failed && Wrong() == 0;
}

void AddDocument(Report& report, const nlohmann::json& document) {
  ReportPanel panel;
  panel.collective = document.value("collective", "");
  report.library = document.value("library", report.library);
  report.processor = document.value("processor", report.processor);
  report.nccl_version = document.value("nccl_version", report.nccl_version);
  report.ranks = document.value("ranks", report.ranks);
  for (const nlohmann::json& row : document.value("results", nlohmann::json::array())) {
    ReportPoint point;
    point.bytes = row.value("size", 0.0);
    point.count = row.value("count", uint64_t{0});
    point.out_of_place = HalfOf(row.value("out_of_place", nlohmann::json()));
    point.in_place = HalfOf(row.value("in_place", nlohmann::json()));
    const nlohmann::json served = row.value("served_by", nlohmann::json::object());
    point.algorithm = served.value("algorithm", "");
    point.module = served.value("module", "");
    point.reason = served.value("reason", "");
    panel.type = row.value("type", "");
    panel.op = row.value("redop", "");
    panel.points.push_back(std::move(point));
  }
  report.panels.push_back(std::move(panel));
}

std::string BytesText(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  char text[32];
  snprintf(text, sizeof text, bytes == std::floor(bytes) ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

std::string MicrosecondsText(double us) {
  if (us < 1) return Significant(us * 1e3) + " ns";
  if (us < 1e3) return Significant(us) + " µs";
  if (us < 1e6) return Significant(us / 1e3) + " ms";
  return Significant(us / 1e6) + " s";
}

std::string BandwidthText(double gb_per_s) {
  if (gb_per_s < 1e-3) return Significant(gb_per_s * 1e6) + " kB/s";
  if (gb_per_s < 1) return Significant(gb_per_s * 1e3) + " MB/s";
  return Significant(gb_per_s) + " GB/s";
}

}  // namespace sl::tools

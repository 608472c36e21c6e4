// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_result.h"

#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sl::tools {
namespace {

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// Three significant digits or more in seven columns.
std::string TimeText(double us) {
  if (us >= 10000) return Format("%7.0f", us);
  if (us >= 100) return Format("%7.1f", us);
  return Format("%7.2f", us);
}

std::string HalfText(const BenchOptions& options, const Half& half) {
  std::string text;
  if (!half.measured) {
    text = Format("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  } else {
    text = "  " + TimeText(half.time_us) + Format("  %6.2f  %6.2f", half.algbw, half.busbw);
    text += half.checked ? Format("  %6llu", static_cast<unsigned long long>(half.wrong)) : Format("  %6s", "N/A");
  }
  if (!options.per_iteration) return text;
  if (!half.measured) return text + Format("  %7s  %7s  %7s  %6s", "N/A", "N/A", "N/A", "N/A");
  return text + "  " + TimeText(half.each.min_us) + "  " + TimeText(half.each.max_us) + "  " +
         TimeText(half.each.p99_us) + Format("  %6.1f", half.each.cv_percent);
}

std::string ColumnsText(const BenchOptions& options) {
  const char* time = options.cpu_time ? "cputime" : "time";
  std::string names = Format("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  std::string units = Format("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    names += Format("  %7s  %6s  %6s  %6s", time, "algbw", "busbw", "#wrong");
    units += Format("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    if (!options.per_iteration) continue;
    names += Format("  %7s  %7s  %7s  %6s", "i_min", "i_max", "i_p99", "i_cv%");
    units += Format("  %7s  %7s  %7s  %6s", "(us)", "(us)", "(us)", "");
  }
  const int gap = options.per_iteration ? 58 : 23;
  return Format("# %10s  %12s  %8s  %6s  %6s           out-of-place%*sin-place          \n", "", "", "", "", "", gap,
                "") +
         names + "\n" + units + "\n";
}

nlohmann::json HalfJson(const BenchOptions& options, const Half& half) {
  if (!half.measured) return nullptr;
  nlohmann::json json = {
      {"time_us", half.time_us},       {"alg_bw", half.algbw},
      {"bus_bw", half.busbw},          {"iterations", half.iterations},
      {"samples_us", half.samples_us}, {"nwrong", half.checked ? nlohmann::json(half.wrong) : nullptr}};
  if (options.per_iteration) {
    json["each_us"] = {{"min", half.each.min_us},
                       {"max", half.each.max_us},
                       {"p99", half.each.p99_us},
                       {"cv_percent", half.each.cv_percent}};
  }
  return json;
}

nlohmann::json ConfigJson(const BenchOptions& options) {
  return {{"min_bytes", options.min_bytes},
          {"max_bytes", options.max_bytes},
          {"step_factor", options.step_factor},
          {"step_bytes", options.step_bytes},
          {"warmup_iters", options.warmups},
          {"iters", options.iterations},
          {"agg_iters", options.aggregate},
          {"repeat", options.repeat},
          {"check", options.checks},
          {"average", static_cast<int>(options.average)},
          {"local_register", options.local_register},
          {"unalign", options.misalign},
          {"report_cputime", options.cpu_time},
          {"blocking", options.blocking},
          {"profile", options.profile}};
}

}  // namespace

uint64_t BenchReport::Wrong() const {
  uint64_t wrong = 0;
  for (const Point& point : points) wrong += point.out_of_place.wrong + point.in_place.wrong;
  return wrong;
}

double BenchReport::AverageBusBandwidth() const {
  double sum = 0;
  size_t halves = 0;
  for (const Point& point : points) {
    for (const Half* half : {&point.out_of_place, &point.in_place}) {
      if (!half->measured) continue;
      sum += half->busbw;
      ++halves;
    }
  }
  return halves ? sum / static_cast<double>(halves) : 0;
}

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  return "processor";
}

std::string HeaderText(const BenchOptions& options, const BenchReport& report) {
  const bool by_factor = options.step_factor > 1;
  std::string text = Format("# nccl-tests version 2.19.6-starling nccl-headers=%d nccl-library=%d\n",
                            kNcclHeadersVersion, report.nccl_version);
  text += Format("# Collective test starting: %s_perf\n", Name(options.collective));
  text += Format(
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: %d unalign: %zu\n",
      options.threads, options.ranks_per_thread, options.min_bytes, options.max_bytes,
      by_factor ? options.step_factor : options.step_bytes, by_factor ? "factor" : "bytes", options.warmups,
      options.iterations, options.aggregate, options.checks, options.graph_launches, options.misalign);
  for (const std::string& flag : options.ignored)
    text += "# option " + flag + " steers a GPU: no effect on host memory\n";
  text += "#\n# Using devices\n";
  const std::string name = ProcessorName();
  for (const Device& device : report.devices) {
    text += Format("#  Rank %2d Group %2d Pid %6d on %10s device %2d [host memory] %s\n", device.rank, 0, device.pid,
                   device.host, 0, name.c_str());
  }
  return text + "#\n" + ColumnsText(options);
}

std::string RowText(const BenchOptions& options, const Point& point) {
  return Format("%12zu  %12zu  %8s  %6s  %6d", point.bytes, point.count, Name(point.type), Name(point.op), point.root) +
         HalfText(options, point.out_of_place) + HalfText(options, point.in_place) + "\n";
}

std::string FooterText(const BenchOptions& options, const BenchReport& report) {
  const uint64_t wrong = report.Wrong();
  return Format("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(wrong), wrong ? "FAILED" : "OK") +
         Format("# Avg bus bandwidth    : %g\n#\n# Collective test concluded: %s_perf\n#\n",
                report.AverageBusBandwidth(), Name(options.collective));
}

nlohmann::json ToJson(const BenchOptions& options, const BenchReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Device& device : report.devices) {
    devices.push_back({{"rank", device.rank}, {"pid", device.pid}, {"host", device.host}});
  }
  nlohmann::json results = nlohmann::json::array();
  for (const Point& point : report.points) {
    results.push_back(
        {{"size", point.bytes},
         {"count", point.count},
         {"type", Name(point.type)},
         {"redop", Name(point.op)},
         {"root", point.root},
         {"out_of_place", HalfJson(options, point.out_of_place)},
         {"in_place", HalfJson(options, point.in_place)},
         {"served_by",
          {{"algorithm", point.served.algorithm}, {"module", point.served.module}, {"reason", point.served.reason}}}});
  }
  return {{"collective", Name(options.collective)},
          {"library", report.library},
          {"nccl_version", report.nccl_version},
          {"ranks", report.ranks},
          {"init", {{"ms", report.init_ms}, {"kib_per_rank", report.init_kib}}},
          {"processor", ProcessorName()},
          {"config", ConfigJson(options)},
          {"devices", devices},
          {"results", results},
          {"out_of_bounds", {{"count", report.Wrong()}, {"okay", report.Wrong() == 0}}},
          {"average_bus_bandwidth", report.AverageBusBandwidth()}};
}

}  // namespace sl::tools

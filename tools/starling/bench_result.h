// SPDX-License-Identifier: Apache-2.0
// What a measurement yields, and its two forms: the table and the JSON file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/starling/bench_options.h"
#include "tools/starling/bench_served.h"

namespace sl::tools {

struct IterationTimes {
  double min_us = 0, max_us = 0, p99_us = 0, cv_percent = 0;
};

// The out-of-place or in-place half of a row.
struct Half {
  bool measured = false;
  bool checked = false;
  double time_us = 0;  // the median of samples_us
  double algbw = 0;    // GB/s (10^9)
  double busbw = 0;
  uint64_t wrong = 0;  // elements, of all ranks and checks
  int iterations = 0;
  std::vector<double> samples_us;
  IterationTimes each;
};

struct Point {
  size_t bytes = 0;
  size_t count = 0;
  DataType type = DataType::kFloat;
  RedOp op = RedOp::kNone;
  int root = -1;
  Half out_of_place;
  Half in_place;
  Served served;
};

struct Device {
  int rank;
  int pid;
  char host[64];
};

struct BenchReport {
  std::string library;
  int nccl_version = 0;
  int ranks = 0;
  double init_ms = 0;   // creating the communicators, on the slowest worker
  double init_kib = 0;  // memory touched by that, per rank, on the worst process
  std::vector<Device> devices;
  std::vector<Point> points;

  uint64_t Wrong() const;
  double AverageBusBandwidth() const;  // of all measured halves
};

// The table, line by line as nccl-tests prints it.
std::string HeaderText(const BenchOptions& options, const BenchReport& report);
std::string RowText(const BenchOptions& options, const Point& point);
std::string FooterText(const BenchOptions& options, const BenchReport& report);

nlohmann::json ToJson(const BenchOptions& options, const BenchReport& report);

// The processor's name, standing where nccl-tests prints a GPU's.
std::string ProcessorName();

}  // namespace sl::tools

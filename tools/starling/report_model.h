// SPDX-License-Identifier: Apache-2.0
// What the report shows, read from the JSON documents that `starling bench -J` writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace sl::tools {

struct ReportHalf {
  bool measured = false;
  double time_us = 0, low_us = 0, high_us = 0;  // median, and the extremes of the samples
  double busbw = 0;                             // GB/s
  uint64_t wrong = 0;
};

struct ReportPoint {
  double bytes = 0;
  uint64_t count = 0;
  ReportHalf out_of_place, in_place;
  std::string algorithm, module, reason;

  // "algorithm in module", or what is known of it; empty when the library does not say.
  std::string ServedText() const;
};

// One collective.
struct ReportPanel {
  std::string collective;
  std::string type, op;
  std::vector<ReportPoint> points;
  std::string failure;  // not empty when the run did not end well
};

struct Report {
  std::string library, profile, processor, host, date;
  int nccl_version = 0;
  int ranks = 0;
  int cores = 0;
  std::vector<ReportPanel> panels;

  uint64_t Wrong() const;
  size_t Points() const;
  bool Good() const;  // nothing wrong and nothing failed
};

// Adds one document as a panel and takes over what is common to all. A document without results gives an empty panel.
void AddDocument(Report& report, const nlohmann::json& document);

// Numbers as people write them: "16 MiB", "2.96 µs", "1.35 ms", "3.2 GB/s".
std::string BytesText(double bytes);
std::string MicrosecondsText(double us);
std::string BandwidthText(double gb_per_s);

}  // namespace sl::tools

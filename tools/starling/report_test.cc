// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/starling/report_html.h"
#include "tools/starling/report_svg.h"

namespace sl::tools {
namespace {

nlohmann::json Document(const std::string& reason, uint64_t wrong) {
  nlohmann::json results = nlohmann::json::array();
  for (double bytes = 8; bytes <= 8192; bytes *= 4) {
    results.push_back(
        {{"size", bytes},
         {"count", 2},
         {"type", "float"},
         {"redop", "sum"},
         {"out_of_place",
          {{"time_us", 2 + bytes / 100}, {"bus_bw", bytes / 1e4}, {"nwrong", wrong}, {"samples_us", {2, 90}}}},
         {"in_place", nullptr},
         {"served_by", {{"algorithm", "ring"}, {"module", "algo-ring"}, {"reason", reason}}}});
  }
  return {{"collective", "all_reduce"}, {"library", "/x/libnccl.so.2"}, {"ranks", 4}, {"results", results}};
}

TEST(Report, StandsAloneAndHoldsEveryPoint) {
  Report report;
  AddDocument(report, Document("cheapest", 0));
  const std::string html = ReportHtml(report);
  for (const char* outside : {"http:", "https:", "<script", "src=", "@import", "url("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  for (const char* text : {"8 B", "32 B", "128 B", "512 B", "2 KiB", "8 KiB", "ring in algo-ring", "cheapest",
                           "every result is right", "<svg"}) {
    EXPECT_NE(html.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(report.Points(), 6u);
}

TEST(Report, EscapesForeignText) {
  Report report;
  AddDocument(report, Document("a<b & \"c\"", 0));
  const std::string html = ReportHtml(report);
  EXPECT_EQ(html.find("a<b"), std::string::npos);
  EXPECT_NE(html.find("a&lt;b &amp; &quot;c&quot;"), std::string::npos);
}

TEST(Report, SaysWhatIsWrong) {
  Report report;
  AddDocument(report, Document("", 5));
  EXPECT_EQ(report.Wrong(), 30u);
  EXPECT_FALSE(report.Good());
  EXPECT_NE(ReportHtml(report).find("30 wrong elements"), std::string::npos);
}

TEST(Report, ShowsACollectiveThatFailed) {
  Report report;
  AddDocument(report, {{"collective", "gather"}});
  report.panels.back().failure = "process 1 killed";
  EXPECT_FALSE(report.Good());
  const std::string html = ReportHtml(report);
  EXPECT_NE(html.find("process 1 killed"), std::string::npos);
  EXPECT_NE(html.find("not everything ran"), std::string::npos);
}

TEST(Report, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(BytesText(16 << 20), "16 MiB");
  EXPECT_EQ(MicrosecondsText(0.4), "400 ns");
  EXPECT_EQ(MicrosecondsText(12.34), "12.3 µs");
  EXPECT_EQ(MicrosecondsText(2345), "2.35 ms");
  EXPECT_EQ(BandwidthText(0.25), "250 MB/s");
  EXPECT_EQ(BandwidthText(12.5), "12.5 GB/s");
}

}  // namespace
}  // namespace sl::tools

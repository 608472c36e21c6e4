// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/report_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace sl::tools {
namespace {

// Geometry in units of the view box.
constexpr double kWidth = 440, kLeft = 58, kRight = 14;
constexpr double kLatencyTop = 24, kLatencyHeight = 150;
constexpr double kRibbonTop = kLatencyTop + kLatencyHeight + 15, kRibbonHeight = 7;
constexpr double kBandwidthTop = kRibbonTop + kRibbonHeight + 30, kBandwidthHeight = 110;
constexpr double kHeight = kBandwidthTop + kBandwidthHeight + 36;

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// "1.00 ms" as "1 ms": the decades on an axis are round.
std::string Rounded(const std::string& text) {
  const size_t point = text.find('.');
  const size_t blank = text.find(' ');
  return point < blank ? text.substr(0, point) + text.substr(blank) : text;
}

// One log-log plot: a rectangle and what its edges mean.
struct Plot {
  const ReportScale& scale;
  double top, height;
  int low, high;  // decades

  double X(double bytes) const {
    const double span = std::log2(scale.high_bytes / scale.low_bytes);
    return kLeft + (kWidth - kLeft - kRight) * std::log2(bytes / scale.low_bytes) / std::max(span, 1e-9);
  }
  double Y(double value) const {
    const double part = (std::log10(std::max(value, 1e-12)) - low) / (high - low);
    return top + height * (1 - std::clamp(part, 0.0, 1.0));
  }
};

using ValueOf = double (*)(const ReportHalf&);
double TimeOf(const ReportHalf& half) { return half.time_us; }
double BandwidthOf(const ReportHalf& half) { return half.busbw; }

struct Series {
  const char* css;
  const char* words;
  ReportHalf ReportPoint::*half;
};
constexpr Series kSeries[] = {{"in", "in place", &ReportPoint::in_place},
                              {"out", "out of place", &ReportPoint::out_of_place}};

std::string Grid(const Plot& plot, const char* title, std::string (*label)(double)) {
  std::string svg = Format("<text class=\"pt\" x=\"%.1f\" y=\"%.1f\">%s</text>", kLeft, plot.top - 9, title);
  for (int decade = plot.low; decade <= plot.high; ++decade) {
    const double y = plot.Y(std::pow(10, decade));
    svg +=
        Format("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft, kWidth - kRight, y, y);
    svg += Format("<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>", kLeft - 7, y + 3.5,
                  Rounded(label(std::pow(10, decade) * 1.000001)).c_str());
  }
  return svg;
}

// Vertical lines every factor of 16, labelled under the lower plot.
std::string SizeTicks(const Plot& plot, bool labels) {
  std::string svg;
  for (double bytes = plot.scale.low_bytes; bytes <= plot.scale.high_bytes * 1.001; bytes *= 16) {
    const double x = plot.X(bytes);
    svg += Format("<line class=\"grid v\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x, x, plot.top,
                  plot.top + plot.height);
    if (!labels) continue;
    svg += Format("<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>", x,
                  plot.top + plot.height + 16, BytesText(bytes).c_str());
  }
  return svg;
}

// The extremes of the samples as a translucent area around the line of medians.
std::string Spread(const Plot& plot, const ReportPanel& panel, const Series& series) {
  std::string up, down;
  for (const ReportPoint& point : panel.points) {
    const ReportHalf& half = point.*series.half;
    if (!half.measured || half.high_us <= 0) continue;
    up += Format("%.1f,%.1f ", plot.X(point.bytes), plot.Y(half.high_us));
    down = Format("%.1f,%.1f ", plot.X(point.bytes), plot.Y(half.low_us)) + down;
  }
  return up.empty() ? "" : Format("<polygon class=\"spread %s\" points=\"", series.css) + up + down + "\"/>";
}

std::string Tooltip(const ReportPanel& panel, const ReportPoint& point, const Series& series) {
  const ReportHalf& half = point.*series.half;
  std::string text = panel.collective + ", " + BytesText(point.bytes) + ", " + series.words + "\n" +
                     MicrosecondsText(half.time_us) + " (" + MicrosecondsText(half.low_us) + " to " +
                     MicrosecondsText(half.high_us) + "), " + BandwidthText(half.busbw) + " bus";
  if (!point.ServedText().empty()) text += "\n" + point.ServedText();
  if (!point.reason.empty()) text += ": " + point.reason;
  return Escaped(text);
}

std::string Line(const Plot& plot, const ReportPanel& panel, const Series& series, ValueOf value) {
  std::string points, marks;
  for (const ReportPoint& point : panel.points) {
    const ReportHalf& half = point.*series.half;
    if (!half.measured || value(half) <= 0) continue;
    const double x = plot.X(point.bytes), y = plot.Y(value(half));
    points += Format("%.1f,%.1f ", x, y);
    marks += Format("<circle class=\"mark %s%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", series.css,
                    half.wrong ? " wrong" : "", x, y);
    // A larger invisible disc is easier to point at.
    marks += Format("<circle class=\"hit\" cx=\"%.1f\" cy=\"%.1f\" r=\"9\"><title>", x, y) +
             Tooltip(panel, point, series) + "</title></circle>";
  }
  return Format("<polyline class=\"line %s\" points=\"", series.css) + points + "\"/>" + marks;
}

std::string Ribbon(const Plot& plot, const ReportPanel& panel, const std::map<std::string, int>& colours) {
  std::string svg;
  if (!colours.empty()) {
    svg = Format("<text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">served by</text>", kLeft - 7,
                 kRibbonTop + kRibbonHeight);
  }
  for (size_t i = 0; i < panel.points.size(); ++i) {
    const ReportPoint& point = panel.points[i];
    auto colour = colours.find(point.algorithm);
    if (colour == colours.end()) continue;
    // Each size owns the stretch to the middle of its neighbours.
    const double left = i ? (plot.X(panel.points[i - 1].bytes) + plot.X(point.bytes)) / 2 : plot.X(point.bytes);
    const double right = i + 1 < panel.points.size() ? (plot.X(point.bytes) + plot.X(panel.points[i + 1].bytes)) / 2
                                                     : plot.X(point.bytes);
    svg += Format("<rect class=\"c%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>", colour->second,
                  left, kRibbonTop, std::max(right - left, 1.0), kRibbonHeight);
    svg +=
        Escaped(BytesText(point.bytes) + ": " + point.ServedText() + (point.reason.empty() ? "" : "\n" + point.reason));
    svg += "</title></rect>";
  }
  return svg;
}

void Widen(double value, double& low, double& high) {
  if (value <= 0) return;
  low = std::min(low, value);
  high = std::max(high, value);
}

void ToDecades(double low, double high, int& low_decade, int& high_decade) {
  if (low > high) low = 1, high = 10;
  low_decade = static_cast<int>(std::floor(std::log10(low)));
  high_decade = static_cast<int>(std::ceil(std::log10(high)));
  if (high_decade == low_decade) ++high_decade;
}

}  // namespace

ReportScale ScaleOf(const Report& report) {
  double low_bytes = 1e300, high_bytes = 0, low_us = 1e300, high_us = 0, low_bw = 1e300, high_bw = 0;
  for (const ReportPanel& panel : report.panels) {
    for (const ReportPoint& point : panel.points) {
      Widen(point.bytes, low_bytes, high_bytes);
      for (const ReportHalf* half : {&point.out_of_place, &point.in_place}) {
        Widen(half->low_us, low_us, high_us);
        Widen(half->high_us, low_us, high_us);
        Widen(half->busbw, low_bw, high_bw);
      }
    }
  }
  ReportScale scale;
  if (high_bytes > low_bytes) {
    scale.low_bytes = low_bytes;
    scale.high_bytes = high_bytes;
  }
  ToDecades(low_us, high_us, scale.low_us, scale.high_us);
  ToDecades(low_bw, high_bw, scale.low_bw, scale.high_bw);
  return scale;
}

std::map<std::string, int> ColoursOf(const Report& report) {
  std::map<std::string, int> colours;
  for (const ReportPanel& panel : report.panels) {
    for (const ReportPoint& point : panel.points) {
      if (point.algorithm.empty()) continue;
      colours.emplace(point.algorithm, static_cast<int>(colours.size()) % kCategoricalColours);
    }
  }
  return colours;
}

std::string PanelSvg(const ReportPanel& panel, const ReportScale& scale, const std::map<std::string, int>& colours) {
  const Plot latency{scale, kLatencyTop, kLatencyHeight, scale.low_us, scale.high_us};
  const Plot bandwidth{scale, kBandwidthTop, kBandwidthHeight, scale.low_bw, scale.high_bw};
  std::string svg = Format(
      "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s: latency and bus bandwidth "
      "against size\">",
      kWidth, kHeight, Escaped(panel.collective).c_str());
  svg += Grid(latency, "time per operation", [](double us) { return MicrosecondsText(us); });
  svg += SizeTicks(latency, false);
  svg += Grid(bandwidth, "bus bandwidth", [](double bw) { return BandwidthText(bw); });
  svg += SizeTicks(bandwidth, true);
  for (const Series& series : kSeries) svg += Spread(latency, panel, series);
  for (const Series& series : kSeries)
    svg += Line(latency, panel, series, TimeOf) + Line(bandwidth, panel, series, BandwidthOf);
  return svg + Ribbon(latency, panel, colours) + "</svg>";
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace sl::tools

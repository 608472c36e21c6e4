// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_tune_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

constexpr char kBegin[] = "# measured by `starling bench --tune`: begin. The next tuning replaces all up to the end.";
constexpr char kEnd[] = "# measured: end";

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// What profiles call it.
const char* OpName(Collective collective) {
  if (collective == Collective::kAlltoAll) return "all_to_all";
  return collective == Collective::kSendRecv ? "send" : Name(collective);
}

long Nanoseconds(double time_us) { return std::max(std::lround(time_us * 1000), 1L); }

// Who is quickest at each size that was measured.
std::map<size_t, std::pair<double, std::string>> Winners(const std::vector<const TuneCurve*>& curves) {
  std::map<size_t, std::pair<double, std::string>> winners;
  for (const TuneCurve* curve : curves) {
    for (const auto& [bytes, time_us] : curve->points) {
      const auto [place, fresh] = winners.try_emplace(bytes, time_us, curve->algorithm);
      if (!fresh && time_us < place->second.first) place->second = {time_us, curve->algorithm};
    }
  }
  return winners;
}

}  // namespace

std::string TuneSection(const TuneTable& table) {
  std::ostringstream out;
  out << kBegin << "\n[measured]\nversion = 1\nmachine = " << Quoted(table.machine) << "\ndate = " << Quoted(table.date)
      << "\nstarling = " << Quoted(table.starling) << "\ndatatype = " << Quoted(table.datatype) << "\nmodules = [";
  for (size_t i = 0; i < table.modules.size(); ++i) out << (i == 0 ? "" : ", ") << Quoted(table.modules[i]);
  out << "]\n";
  for (const TuneCurve& curve : table.curves) {
    out << "\n[[measured.cost]]\nop = \"" << OpName(curve.collective) << "\"\nranks = " << curve.ranks
        << "\nalgorithm = " << Quoted(curve.algorithm) << "\npoints = [";
    for (size_t i = 0; i < curve.points.size(); ++i) {
      out << (i == 0 ? "" : ", ") << "[" << curve.points[i].first << ", " << Nanoseconds(curve.points[i].second) << "]";
    }
    out << "]\n";
  }
  out << kEnd << "\n";
  return out.str();
}

std::string WithoutTuneSection(const std::string& text, const std::string& file) {
  std::string rest = text;
  if (const size_t begin = text.find(kBegin); begin != std::string::npos) {
    const size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) {
      throw CommandError(kExitUsage, file + ": the line \"" + kEnd + "\" is missing; put it where the costs end");
    }
    const size_t next = text.find('\n', end);
    rest = text.substr(0, begin) + (next == std::string::npos ? "" : text.substr(next + 1));
  }
  if (std::regex_search(rest, std::regex("(^|\n)[ \t]*\\[*[ \t]*measured[ \t]*[.=\\]]"))) {
    throw CommandError(kExitUsage, file + ": it has costs that were not written by tuning; take [measured] out of it");
  }
  return rest;
}

std::string WinnersText(const TuneTable& table) {
  std::map<std::pair<int, Collective>, std::vector<const TuneCurve*>> groups;
  for (const TuneCurve& curve : table.curves) groups[{curve.ranks, curve.collective}].push_back(&curve);
  std::ostringstream out;
  for (const auto& [key, curves] : groups) {
    out << Name(key.second) << " over " << key.first << " ranks:";
    std::string before;
    size_t last = 0;
    for (const auto& [bytes, winner] : Winners(curves)) {
      if (winner.second != before) {
        if (!before.empty()) out << " to " << last << ",";
        out << " " << winner.second << " from " << bytes;
        before = winner.second;
      }
      last = bytes;
    }
    out << " to " << last << " bytes\n";
  }
  return out.str();
}

}  // namespace sl::tools

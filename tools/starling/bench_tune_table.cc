// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_tune_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iomanip>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tools/starling/bench_error.h"

namespace sl::tools {
namespace {

constexpr char kBegin[] = "# measured by `starling bench --tune`: begin. The next tuning replaces all up to the end.";
constexpr char kEnd[] = "# measured: end";
constexpr double kAhead = 1.03;  // times; less is noise

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

// Without what stands between two marks.
std::string Without(const std::string& text, const char* begin_mark, const char* end_mark, const std::string& file) {
  const size_t begin = text.find(begin_mark);
  if (begin == std::string::npos) return text;
  const size_t end = text.find(end_mark, begin);
  if (end == std::string::npos) {
    throw CommandError(kExitUsage, file + ": the line \"" + end_mark + "\" is missing; put it where the costs end");
  }
  const size_t next = text.find('\n', end);
  return text.substr(0, begin) + (next == std::string::npos ? "" : text.substr(next + 1));
}

const double* TimeAt(const TuneCurve& curve, size_t bytes) {
  for (const auto& point : curve.points) {
    if (point.first == bytes) return &point.second;
  }
  return nullptr;
}

const TuneCurve* QuickestAt(const std::vector<const TuneCurve*>& curves, size_t bytes) {
  const TuneCurve* quickest = nullptr;
  for (const TuneCurve* curve : curves) {
    const double* time = TimeAt(*curve, bytes);
    if (time != nullptr && (quickest == nullptr || *time < *TimeAt(*quickest, bytes))) quickest = curve;
  }
  return quickest;
}

// An algorithm serves from behind `low` on, at the latest from `high` on, where it was seen to be the quickest.
struct Change {
  const TuneCurve* from;  // nullptr for the first
  const TuneCurve* to;
  size_t low, high;
};

std::vector<Change> Changes(const std::vector<const TuneCurve*>& curves) {
  std::set<size_t> sizes;
  for (const TuneCurve* curve : curves) {
    for (const auto& point : curve->points) sizes.insert(point.first);
  }
  std::vector<Change> changes;
  const TuneCurve* serving = nullptr;
  size_t last = 0;
  for (const size_t bytes : sizes) {
    const TuneCurve* quickest = QuickestAt(curves, bytes);
    const double* time = serving == nullptr ? nullptr : TimeAt(*serving, bytes);
    if (time == nullptr || *time > kAhead * *TimeAt(*quickest, bytes)) {
      changes.push_back({serving, quickest, last, bytes});
      serving = quickest;
    }
    last = bytes;
  }
  return changes;
}

using CurveGroups = std::map<std::pair<int, Collective>, std::vector<const TuneCurve*>>;

// By ranks and collective.
CurveGroups GroupsOf(const std::vector<TuneCurve>& curves) {
  CurveGroups groups;
  for (const TuneCurve& curve : curves) groups[{curve.ranks, curve.collective}].push_back(&curve);
  return groups;
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
        << "\nalgorithm = " << Quoted(curve.algorithm);
    if (table.device != "host") out << "\ndevice = " << Quoted(table.device);
    out << "\npoints = [";
    for (size_t i = 0; i < curve.points.size(); ++i) {
      out << (i == 0 ? "" : ", ") << "[" << curve.points[i].first << ", " << Nanoseconds(curve.points[i].second) << "]";
    }
    out << "]\n";
  }
  out << kEnd << "\n";
  return out.str();
}

std::string WithoutTuneSection(const std::string& text, const std::string& file) {
  std::string rest = Without(text, kBegin, kEnd, file);
  if (std::regex_search(rest, std::regex("(^|\n)[ \t]*\\[*[ \t]*measured[ \t]*[.=\\]]"))) {
    throw CommandError(kExitUsage, file + ": it has costs that were not written by tuning; take [measured] out of it");
  }
  return rest;
}

std::vector<TuneGap> ChangesOf(const std::vector<TuneCurve>& curves) {
  std::vector<TuneGap> gaps;
  for (const auto& [key, group] : GroupsOf(curves)) {
    for (const Change& change : Changes(group)) {
      if (change.from != nullptr) gaps.push_back({key.first, key.second, change.low, change.high});
    }
  }
  return gaps;
}

size_t MiddleOf(const TuneGap& gap, DataType type) {
  const auto middle = static_cast<size_t>(std::sqrt(static_cast<double>(gap.low) * static_cast<double>(gap.high)));
  const size_t grain = std::max(std::bit_floor(middle) / 8, size_t{1});
  const size_t bytes = ShapeOf(gap.collective, middle / grain * grain, type, gap.ranks).bytes;
  return bytes > gap.low && bytes < gap.high ? bytes : 0;
}

std::string TimesText(const std::vector<TuneCurve>& curves) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  for (const auto& [key, group] : GroupsOf(curves)) {
    std::map<size_t, std::multimap<double, std::string>> sizes;
    for (const TuneCurve* curve : group) {
      for (const auto& [bytes, us] : curve->points) sizes[bytes].emplace(us, curve->algorithm);
    }
    for (const auto& [bytes, times] : sizes) {
      out << "# " << OpName(key.second) << " " << key.first << " of " << bytes << " bytes:";
      for (const auto& [us, algorithm] : times) out << " " << algorithm << " " << us;
      out << " us\n";
    }
  }
  return out.str();
}

std::string WinnersText(const TuneTable& table) {
  std::ostringstream out;
  for (const auto& [key, curves] : GroupsOf(table.curves)) {
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

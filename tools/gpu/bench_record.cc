// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_record.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

using nlohmann::json;

// The file's first key, with the revision of what stands behind it and of how it is measured.
constexpr char kMark[] = "starling_gpu_bench";
constexpr int kRevision = 1;

// The first value that is not the same in both; "" when all are.
std::string Difference(const json& there, const json& here) {
  json flat_there = there.flatten();
  const json flat_here = here.flatten();
  for (const auto& [name, value] : flat_here.items()) flat_there.emplace(name, nullptr);
  for (const auto& [name, value] : flat_there.items()) {
    const json& mine = flat_here.contains(name) ? flat_here[name] : json();
    if (mine != value) return name.substr(1) + " is " + value.dump() + " there and " + mine.dump() + " here";
  }
  return "";
}

json JsonOf(const Row& row) {
  json fields = {{"collective", row.point.collective},
                 {"issue", Name(row.point.issue)},
                 {"memory", Name(row.point.memory)},
                 {"bytes", row.point.bytes},
                 {"us", row.us},
                 {"right", row.is_right}};
  if (row.point.ctas) fields["ctas"] = *row.point.ctas;
  return fields;
}

// Throws json::exception or CommandError.
Row RowOf(const json& row, const Conditions& conditions) {
  Row read{PointOf(row.at("collective"), row.at("issue"), row.at("memory"), row.at("bytes").get<size_t>()),
           row.at("us").get<std::vector<std::vector<double>>>(), row.at("right").get<bool>()};
  if (row.contains("ctas")) read.point.ctas = row["ctas"].get<int>();
  const auto rounds = static_cast<size_t>(conditions.rounds);
  const auto is_good = [&](const std::vector<double>& us) {
    return (us.size() == rounds || (us.empty() && read.point.ctas)) &&
           std::all_of(us.begin(), us.end(), [](double one) { return one > 0; });
  };
  if (read.us.size() != conditions.libraries.size() || !std::all_of(read.us.begin(), read.us.end(), is_good)) {
    throw tools::CommandError(tools::kExitFailure, read.point.Text() + ": not " + std::to_string(conditions.rounds) +
                                                       " times in us for each of " +
                                                       std::to_string(conditions.libraries.size()));
  }
  return read;
}

}  // namespace

Record::Record(Conditions conditions, std::vector<std::string> paths)
    : conditions_(std::move(conditions)), paths_(std::move(paths)) {}

void Record::Resume(const std::string& path) {
  if (!std::filesystem::exists(path)) return;
  try {
    std::ifstream file(path);
    if (!file || !std::filesystem::is_regular_file(path))
      throw tools::CommandError(tools::kExitFailure, "no file that can be read");
    const json document = json::parse(file);
    if (document.value(kMark, 0) != kRevision) {
      throw tools::CommandError(tools::kExitFailure, std::string("no record of gpu-bench: ") + kMark + " is not " +
                                                         std::to_string(kRevision));
    }
    if (const std::string what = Difference(document.at("conditions"), json(conditions_)); !what.empty())
      throw tools::CommandError(tools::kExitFailure, "measured under other conditions: " + what);
    for (const json& row : document.at("points")) Add(RowOf(row, conditions_));
  } catch (const json::exception& error) {
    throw tools::CommandError(tools::kExitFailure, path + ": no whole record of gpu-bench: " + error.what() +
                                                       "; name another file, or leave out --resume");
  } catch (const tools::CommandError& error) {
    throw tools::CommandError(tools::kExitFailure,
                              path + ": " + error.what() + "; name another file, or leave out --resume");
  }
}

void Record::Write(const std::string& path) const {
  const std::string fresh = path + ".new";
  {
    std::ofstream file(fresh);
    file << "{\"" << kMark << "\": " << kRevision << ",\n \"paths\": " << json(paths_)
         << ",\n \"conditions\": " << json(conditions_) << ",\n \"points\": [";
    for (const Row& row : rows_) file << (&row == rows_.data() ? "\n  " : ",\n  ") << JsonOf(row);
    file << "\n ]}\n";
    if (file.flush() && std::rename(fresh.c_str(), path.c_str()) == 0) return;
  }
  const std::string why = std::strerror(errno);
  std::remove(fresh.c_str());
  throw tools::CommandError(tools::kExitFailure, path + ": cannot be written: " + why);
}

void Record::Add(Row row) {
  const auto is_same = [&](const Row& other) { return other.point == row.point; };
  if (std::any_of(rows_.begin(), rows_.end(), is_same))
    throw tools::CommandError(tools::kExitFailure, row.point.Text() + " is there twice");
  rows_.push_back(std::move(row));
}

std::vector<Point> Record::Missing(const std::vector<Point>& grid) const {
  std::vector<Point> missing = grid;
  std::erase_if(missing, [&](const Point& point) {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.point == point; });
  });
  return missing;
}

}  // namespace sl::bench

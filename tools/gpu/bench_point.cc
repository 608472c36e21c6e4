// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu/bench_point.h"

#include <algorithm>
#include <iterator>

#include "tools/starling/bench_error.h"

namespace sl::bench {
namespace {

constexpr const char* kIssues[] = {"eager", "graph", "dependent"};
constexpr const char* kMemories[] = {"plain", "registered", "symmetric"};

// Throws when `text` is none of them.
template <size_t kCount>
uint32_t IndexOf(const char* const (&names)[kCount], const std::string& text) {
  std::string known;
  for (uint32_t i = 0; i < kCount; ++i) {
    if (text == names[i]) return i;
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw tools::CommandError(tools::kExitUsage, "'" + text + "' is none of " + known);
}

std::vector<size_t> Sizes(const GridOptions& options) {
  std::vector<size_t> sizes = {64, 4096};
  for (size_t bytes = 8; bytes <= size_t{2} << 30; bytes *= 4) sizes.push_back(bytes);
  std::sort(sizes.begin(), sizes.end());
  std::erase_if(sizes, [&](size_t bytes) { return bytes < options.min_bytes || bytes > options.max_bytes; });
  return sizes;
}

}  // namespace

const char* Name(Issue issue) { return kIssues[static_cast<uint32_t>(issue)]; }
const char* Name(Memory memory) { return kMemories[static_cast<uint32_t>(memory)]; }

std::string Point::Text() const {
  return collective + " of " + std::to_string(bytes) + " bytes, " + Name(issue) + ", " + Name(memory) + " buffers" +
         (ctas ? ", " + std::to_string(*ctas) + " blocks" : "");
}

bool Point::MayHoldNoSms() const {
  return memory == Memory::kSymmetric && (collective == "all_gather" || collective == "alltoall");
}

Point PointOf(const std::string& collective, const std::string& issue, const std::string& memory, size_t bytes) {
  const bool is_uneven = collective == "alltoallv";
  return {collective, is_uneven ? tools::Collective::kAlltoAll : tools::ParseCollective(collective),
          static_cast<Issue>(IndexOf(kIssues, issue)), static_cast<Memory>(IndexOf(kMemories, memory)), bytes};
}

Effort EffortFor(const Point& point) {
  const int operations = point.bytes <= (64u << 10)    ? 400
                         : point.bytes <= (2u << 20)   ? 200
                         : point.bytes <= (32u << 20)  ? 60
                         : point.bytes <= (512u << 20) ? 12
                                                       : 4;
  if (point.issue != Issue::kGraph) return {operations, 1};
  const int captured = std::min(operations, 200);
  return {captured, std::max(operations / captured, 1)};
}

std::vector<Point> GridOf(const GridOptions& options) {
  std::vector<Point> grid;
  std::vector<std::optional<int>> budgets(options.ctas.begin(), options.ctas.end());
  if (budgets.empty()) budgets.emplace_back();
  for (const std::optional<int>& ctas : budgets) {
    for (const std::string& memory : options.memories) {
      for (const std::string& issue : options.issues) {
        for (const std::string& collective : options.collectives) {
          for (const size_t bytes : Sizes(options)) {
            Point point = PointOf(collective, issue, memory, bytes);
            point.ctas = ctas;
            if (std::find(grid.begin(), grid.end(), point) == grid.end()) grid.push_back(std::move(point));
          }
        }
      }
    }
  }
  const size_t part = (grid.size() + static_cast<size_t>(options.slices) - 1) / static_cast<size_t>(options.slices);
  const size_t begin = std::min(grid.size(), part * static_cast<size_t>(options.slice));
  const size_t end = std::min(grid.size(), begin + part);
  return {grid.begin() + static_cast<std::ptrdiff_t>(begin), grid.begin() + static_cast<std::ptrdiff_t>(end)};
}

size_t UnevenBytes(size_t bytes, int from, int to, int ranks) {
  const size_t quarter = bytes / static_cast<size_t>(ranks) / 4;
  const size_t shares = 1 + static_cast<size_t>(from * 3 + to * 5) % 4;
  return std::max<size_t>(quarter * shares / 16 * 16, 16);
}

}  // namespace sl::bench

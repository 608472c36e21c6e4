// SPDX-License-Identifier: Apache-2.0
// What is measured: one point of the grid, and how often it is repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/starling/bench_types.h"

namespace sl::bench {

// Operations follow each other on one stream: called one by one, captured in a chain, or called one by one, each on
// what the one before left.
enum class Issue : uint32_t { kEager, kGraph, kDependent };
enum class Memory : uint32_t { kPlain, kRegistered, kSymmetric };  // nccl-tests' -R 0, 1, 2

struct Point {
  std::string collective;  // as tools::Name, or "alltoallv": a group of sends and receives of four different sizes
  tools::Collective kind;
  Issue issue;
  Memory memory;
  size_t bytes;
  // Blocks asked for, as ncclConfig_t.minCTAs and maxCTAs, 0 as CTAPolicy ZERO; else the library's choice.
  std::optional<int> ctas = {};

  std::string Text() const;
  // Whether copy engines can serve it; other operations hold SMs under CTAPolicy ZERO, too.
  bool MayHoldNoSms() const;
  bool operator==(const Point&) const = default;
};

const char* Name(Issue issue);
const char* Name(Memory memory);
// From names. Throws CommandError (usage) with the names that exist.
Point PointOf(const std::string& collective, const std::string& issue, const std::string& memory, size_t bytes);

// How many operations a measurement times: some milliseconds' worth, so that the start of the first one and the
// noticing of the last one's end, some 10 us together, are little of each.
struct Effort {
  int operations;  // launched one by one, or captured in one graph
  int replays;     // of that graph; eager: 1
};
Effort EffortFor(const Point& point);

struct GridOptions {
  std::vector<std::string> collectives;
  std::vector<std::string> issues;
  std::vector<std::string> memories;
  std::vector<int> ctas;  // budgets of blocks; none: the libraries' own choice
  size_t min_bytes = 8;
  size_t max_bytes = size_t{2} << 30;
  int slice = 0;  // of `slices` equal parts
  int slices = 1;
};
// Budgets outermost, then memory, sizes innermost: 8 B and up by factors of four, 64 B and 4 KiB. What is named twice
// counts once. Throws CommandError (usage).
std::vector<Point> GridOf(const GridOptions& options);

// Bytes that one rank sends another in an uneven all-to-all that moves about `bytes` in all.
size_t UnevenBytes(size_t bytes, int from, int to, int ranks);

}  // namespace sl::bench

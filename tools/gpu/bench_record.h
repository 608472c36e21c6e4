// SPDX-License-Identifier: Apache-2.0
// What a comparison has measured, kept in a file that is whole at any time, so that a run that was cut can go on.
#pragma once

#include <string>
#include <vector>

#include "tools/gpu/bench_conditions.h"
#include "tools/gpu/bench_point.h"

namespace sl::bench {

struct Row {
  Point point;
  // Of each library, of each round, maximum over the GPUs; no rounds: it refuses the budget of blocks.
  std::vector<std::vector<double>> us;
  bool is_right = true;  // all libraries leave the same

  bool operator==(const Row&) const = default;
};

class Record {
 public:
  // `paths` of the libraries are written for the reader alone; conditions tell them apart.
  Record(Conditions conditions, std::vector<std::string> paths);

  // Takes the rows of the file at `path`, when there is one. Throws CommandError (failure), which names the file and
  // the first difference or mistake: measured under other conditions, no record, half of one, a point twice.
  void Resume(const std::string& path);
  // Replaces the file; who reads it, or is cut here, has the old one or the new one. Throws CommandError (failure).
  void Write(const std::string& path) const;

  // Throws CommandError (failure) when the point is there already.
  void Add(Row row);
  // The points of `grid` that are not there yet, in its order.
  std::vector<Point> Missing(const std::vector<Point>& grid) const;
  const std::vector<Row>& rows() const { return rows_; }

 private:
  const Conditions conditions_;
  const std::vector<std::string> paths_;
  std::vector<Row> rows_;
};

}  // namespace sl::bench

// SPDX-License-Identifier: Apache-2.0
// One worker (thread) of a measurement: its ranks, the timed loops, the checks.
#pragma once

#include <functional>
#include <vector>

#include "tools/starling/bench_rank.h"
#include "tools/starling/bench_result.h"
#include "tools/starling/launch_coordinator.h"

namespace sl::tools {

// What one timed loop does. Shared with the programs that measure other libraries, so that all are measured alike.
struct LoopSpec {
  int warmups = 1;
  int iterations = 20;
  int aggregate = 1;
  int repeat = 1;
  double budget_ms = 0;  // 0 = none; else iterations shrink (to 3 at least) where a sample would take longer
  bool cpu_time = false;
  bool barrier_each = false;
  bool per_iteration = false;
  Average average = Average::kMean;
};

struct LoopResult {
  std::vector<double> samples_us;  // per operation, combined over the workers; the same on every worker
  IterationTimes each;
  int iterations = 0;
};

// Warm-ups, then `repeat` samples: a barrier, `iterations` times `body` back to back, the time divided by iterations
// and aggregate, combined over all workers. Collective over the coordinator's workers.
LoopResult TimeLoop(Coordinator& coordinator, const LoopSpec& spec, const std::function<void()>& body);

// Bytes behind every output that an operation must not touch; buffers are allocated with room for them.
inline constexpr size_t kGuardBytes = 64;

double Median(std::vector<double> values);

class Worker {
 public:
  // `coordinator` and `api` outlive the worker. `ranks` have communicators and buffers.
  Worker(const BenchOptions& options, const NcclApi& api, Coordinator& coordinator, std::vector<Rank>& ranks);

  // Untimed operations of the largest and the smallest size, so that the first row carries no first-use cost.
  void WarmUp();
  // Walks over types, operators, roots and sizes; calls `row` after each point.
  void MeasureAll(const std::function<void(const Point&)>& row);
  // One row. `root` does not matter where the collective has none.
  Point MeasurePoint(size_t bytes, DataType type, RedOp op, int root);

 private:
  Call CallFor(size_t bytes, DataType type, RedOp op, int root) const;
  Half MeasureHalf(const Call& call);
  uint64_t CheckOnce(const Call& call);
  void Fill(const Call& call, uint64_t seed);
  uint64_t Compare(const Call& call, Rank& rank, uint64_t seed);
  void RunAll(const Call& call, int times);

  const BenchOptions& options_;
  const NcclApi& api_;
  Coordinator& coordinator_;
  std::vector<Rank>& ranks_;
  uint64_t seed_ = 1;  // a new one each fill, the same on all workers: stale data never look right
};

}  // namespace sl::tools

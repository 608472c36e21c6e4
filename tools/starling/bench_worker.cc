// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_worker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_oracle.h"

namespace sl::tools {
namespace {

constexpr unsigned char kUntouched = 0xa5;
constexpr int kWarmUps = 50;

int64_t Clock(bool cpu_time) {
  timespec now;
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

double Combine(const std::vector<double>& values, Average average) {
  double sum = 0;
  for (double value : values) sum += value;
  switch (average) {
    case Average::kRank0:
      return values.front();
    case Average::kMin:
      return *std::min_element(values.begin(), values.end());
    case Average::kMax:
      return *std::max_element(values.begin(), values.end());
    default:
      return sum / static_cast<double>(values.size());
  }
}

IterationTimes Summarise(std::vector<double>& times_us) {
  IterationTimes result;
  if (times_us.empty()) return result;
  std::sort(times_us.begin(), times_us.end());
  const double n = static_cast<double>(times_us.size());
  double sum = 0, squares = 0;
  for (double time : times_us) sum += time;
  for (double time : times_us) squares += (time - sum / n) * (time - sum / n);
  result.min_us = times_us.front();
  result.max_us = times_us.back();
  result.p99_us = times_us[static_cast<size_t>(std::ceil(0.99 * n)) - 1];
  result.cv_percent = sum > 0 ? 100 * std::sqrt(squares / n) / (sum / n) : 0;
  return result;
}

// One for each run of a result over its end, which a benchmark of speed alone would never notice.
uint64_t GuardChanged(const char* guard) {
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (static_cast<unsigned char>(guard[i]) != kUntouched) return 1;
  }
  return 0;
}

// The worst worker's view of its own iterations.
IterationTimes Worst(const std::vector<IterationTimes>& all) {
  IterationTimes worst = all.front();
  for (const IterationTimes& one : all) {
    worst.min_us = std::min(worst.min_us, one.min_us);
    worst.max_us = std::max(worst.max_us, one.max_us);
    worst.p99_us = std::max(worst.p99_us, one.p99_us);
    worst.cv_percent = std::max(worst.cv_percent, one.cv_percent);
  }
  return worst;
}

// Runs the warm-ups; with a budget shrinks both counts by what the first ones took on the slowest worker.
void WarmUp(Coordinator& coordinator, const std::function<void()>& body, double budget_ms, int& warmups,
            int& iterations) {
  int done = 0;
  if (budget_ms > 0) {
    coordinator.Barrier(false);
    const int64_t start = Clock(false);
    for (; done < 2; ++done) body();
    std::vector<double> each = coordinator.GatherValues(static_cast<double>(Clock(false) - start) / 2e6);
    const double slowest_ms = std::max(*std::max_element(each.begin(), each.end()), 1e-6);
    const auto fit = static_cast<int>(std::min(budget_ms / slowest_ms, 1e9));
    iterations = std::min(iterations, std::max(fit, 3));
    warmups = std::min(warmups, std::max(fit / 5, 2));
  }
  for (; done < warmups; ++done) {
    body();
    coordinator.Tick();
  }
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

LoopResult TimeLoop(Coordinator& coordinator, const LoopSpec& spec, const std::function<void()>& body) {
  LoopResult result;
  int warmups = spec.warmups;
  result.iterations = spec.iterations;
  WarmUp(coordinator, body, spec.budget_ms, warmups, result.iterations);
  std::vector<double> each_us;
  if (spec.per_iteration) each_us.reserve(static_cast<size_t>(result.iterations) * static_cast<size_t>(spec.repeat));
  for (int sample = 0; sample < spec.repeat; ++sample) {
    coordinator.Barrier(true);
    const int64_t start = Clock(spec.cpu_time);
    int64_t last = start;
    for (int i = 0; i < result.iterations; ++i) {
      body();
      if (spec.barrier_each) coordinator.Barrier(false);
      coordinator.Tick();
      if (!spec.per_iteration) continue;
      const int64_t now = Clock(spec.cpu_time);
      each_us.push_back(static_cast<double>(now - last) / 1e3 / spec.aggregate);
      last = now;
    }
    const double mine = static_cast<double>(Clock(spec.cpu_time) - start) / 1e3 / result.iterations / spec.aggregate;
    result.samples_us.push_back(Combine(coordinator.GatherValues(mine), spec.average));
  }
  if (spec.per_iteration) result.each = Worst(coordinator.GatherValues(Summarise(each_us)));
  return result;
}

Worker::Worker(const BenchOptions& options, const NcclApi& api, Coordinator& coordinator, std::vector<Rank>& ranks)
    : options_(options), api_(api), coordinator_(coordinator), ranks_(ranks) {}

void Worker::MeasureAll(const std::function<void(const Point&)>& row) {
  const int last_root = options_.root >= 0 ? options_.root : ranks_.front().ranks() - 1;
  for (DataType type : options_.types) {
    for (RedOp op : options_.ops) {
      for (int root = std::max(options_.root, 0); root <= last_root; ++root) {
        for (size_t bytes : SizesOf(options_)) {
          row(MeasurePoint(bytes, type, op, root));
        }
        if (!HasRoot(options_.collective)) break;
      }
    }
  }
}

Call Worker::CallFor(size_t bytes, DataType type, RedOp op, int root) const {
  for (Rank& rank : ranks_) rank.Shift(options_.misalign * SizeOf(type));
  const Shape shape = ShapeOf(options_.collective, bytes, type, ranks_.front().ranks());
  return {options_.collective, shape, type, op, HasRoot(options_.collective) ? root : -1, false};
}

void Worker::WarmUp() {
  const int root = std::max(options_.root, 0);
  coordinator_.Doing("warm-up");
  const Call large = CallFor(SizesOf(options_).back(), options_.types.front(), options_.ops.front(), root);
  Fill(large, seed_++);
  RunAll(large, 1);
  const Call small = CallFor(options_.min_bytes, options_.types.front(), options_.ops.front(), root);
  Fill(small, seed_++);
  for (int i = 0; i < kWarmUps; ++i) RunAll(small, 1);
}

Point Worker::MeasurePoint(size_t bytes, DataType type, RedOp op, int root) {
  Call call = CallFor(bytes, type, op, root);
  coordinator_.Doing(std::string(Name(options_.collective)) + " of " + std::to_string(call.shape.bytes) + " bytes " +
                     Name(type) + " " + Name(op));
  Point point;
  point.bytes = call.shape.bytes;
  point.count = call.shape.param_count;
  point.type = type;
  point.op = op;
  point.root = call.root;
  point.out_of_place = MeasureHalf(call);
  // Workers of several hosts agree over this communicator, too: what it did last may be their own talk.
  RunAll(call, 1);
  point.served = ServedBy(api_, ranks_.front().comm());
  if (AllowsInPlace(options_.collective) && !options_.out_of_place_only) {
    call.in_place = true;
    point.in_place = MeasureHalf(call);
  }
  return point;
}

void Worker::RunAll(const Call& call, int times) {
  const bool group = ranks_.size() > 1 || times > 1;
  if (group) CheckNccl(api_, api_.GroupStart(), "ncclGroupStart", nullptr);
  for (int i = 0; i < times; ++i) {
    for (Rank& rank : ranks_) rank.Run(call);
  }
  if (group) CheckNccl(api_, api_.GroupEnd(), "ncclGroupEnd", ranks_.front().comm());
}

Half Worker::MeasureHalf(const Call& call) {
  LoopSpec spec;
  spec.iterations = options_.iterations ? options_.iterations : IterationsForSize(call.shape.bytes);
  spec.warmups = options_.warmups >= 0 ? options_.warmups : WarmupsForSize(call.shape.bytes);
  spec.aggregate = options_.aggregate;
  spec.repeat = options_.repeat;
  spec.budget_ms = options_.budget_ms;
  spec.cpu_time = options_.cpu_time;
  spec.barrier_each = options_.blocking >= 2;
  spec.per_iteration = options_.per_iteration;
  spec.average = options_.average;
  Fill(call, seed_++);
  coordinator_.Barrier(false);
  LoopResult loop = TimeLoop(coordinator_, spec, [&] { RunAll(call, options_.aggregate); });
  Half half;
  half.measured = true;
  half.samples_us = loop.samples_us;
  half.iterations = loop.iterations;
  half.each = loop.each;
  half.time_us = Median(loop.samples_us);
  half.algbw = half.time_us > 0 ? static_cast<double>(call.shape.bytes) / 1e3 / half.time_us : 0;
  half.busbw = half.algbw * BusFactor(call.collective, ranks_.front().ranks());
  half.checked = options_.checks > 0;
  for (int round = 0; round < options_.checks; ++round) half.wrong += CheckOnce(call);
  return half;
}

uint64_t Worker::CheckOnce(const Call& call) {
  const uint64_t seed = seed_++;
  Fill(call, seed);
  coordinator_.Barrier(false);
  RunAll(call, 1);
  uint64_t wrong = 0;
  for (Rank& rank : ranks_) {
    wrong += Compare(call, rank, seed);
    coordinator_.Tick();
  }
  uint64_t total = 0;
  for (uint64_t part : coordinator_.GatherValues(wrong)) total += part;
  return total;
}

// Inputs, and in every other byte of the outputs, and a guard behind them, a pattern that no result has by chance.
void Worker::Fill(const Call& call, uint64_t seed) {
  const size_t width = SizeOf(call.type);
  const size_t most = std::max(call.shape.send_count, call.shape.recv_count);
  for (Rank& rank : ranks_) {
    Oracle oracle(call.type, call.op, rank.ranks(), seed, most);
    std::memset(rank.recv().data, kUntouched, most * width + kGuardBytes);
    oracle.Fill(rank.rank(), 0, call.shape.send_count, rank.SendBuffer(call));
    coordinator_.Tick();
  }
}

uint64_t Worker::Compare(const Call& call, Rank& rank, uint64_t seed) {
  const Shape& shape = call.shape;
  const size_t block = shape.param_count;
  const size_t width = SizeOf(call.type);
  const size_t me = static_cast<size_t>(rank.rank());
  const char* got = rank.RecvBuffer(call);
  Oracle oracle(call.type, call.op, rank.ranks(), seed, std::max(shape.send_count, shape.recv_count));
  const bool root = rank.rank() == call.root;
  uint64_t wrong = GuardChanged(rank.recv().data + std::max(shape.send_count, shape.recv_count) * width);
  if (!call.in_place) wrong += oracle.CheckInput(rank.rank(), 0, shape.send_count, rank.SendBuffer(call));
  switch (call.collective) {
    case Collective::kAllReduce:
      return wrong + oracle.CheckReduced(0, shape.recv_count, got);
    case Collective::kReduce:
      return root ? wrong + oracle.CheckReduced(0, shape.recv_count, got) : wrong;
    case Collective::kReduceScatter:
      return wrong + oracle.CheckReduced(me * block, block, got);
    case Collective::kBroadcast:
      return wrong + oracle.CheckInput(call.root, 0, shape.recv_count, got);
    case Collective::kScatter:
      return wrong + oracle.CheckInput(call.root, me * block, block, got);
    case Collective::kSendRecv:
      return wrong + oracle.CheckInput((rank.rank() + rank.ranks() - 1) % rank.ranks(), 0, block, got);
    case Collective::kGather:
      if (!root) return wrong;
      [[fallthrough]];
    case Collective::kAllGather:
    case Collective::kAlltoAll:
      for (size_t peer = 0; peer < static_cast<size_t>(rank.ranks()); ++peer) {
        const size_t first = call.collective == Collective::kAlltoAll ? me * block : 0;
        wrong += oracle.CheckInput(static_cast<int>(peer), first, block, got + peer * block * width);
      }
      return wrong;
  }
  return wrong;
}

}  // namespace sl::tools

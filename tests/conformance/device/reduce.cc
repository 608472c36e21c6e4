// SPDX-License-Identifier: Apache-2.0
// Reductions: every type and operation, as stream work and as plain functions, against a high-precision oracle.
#include <algorithm>
#include <cstring>

#include "sdk/datatype.h"
#include "tests/conformance/device/bench.h"
#include "tests/conformance/device/suite.h"
#include "tests/conformance/kit/random.h"
#include "tools/starling/bench_oracle.h"

namespace sl::conform::device {
namespace {

using tools::DataType;
using tools::RedOp;

// One reduction of a few sources, whose right answer the oracle knows.
struct Task {
  sl_datatype_t datatype;
  sl_reduction_t reduction;
  uint32_t sources;
  uint64_t count;
  uint64_t offset;  // elements that every buffer is off alignment
  bool in_place;    // the result replaces source 0

  std::string ToString() const {
    return fmt::format("{} of {} x {} {}, {} elements off{}", ReductionName(reduction), sources, count,
                       DatatypeName(datatype), offset, in_place ? ", in place" : "");
  }
};

// Source, result and second result in memory of the device.
class Table {
 public:
  Table(Bench& bench, const Task& task, uint64_t seed)
      : bench_(bench),
        task_(task),
        width_(DatatypeBytes(task.datatype)),
        oracle_(static_cast<DataType>(task.datatype), static_cast<RedOp>(task.reduction),
                static_cast<int>(task.sources), seed, std::max<uint64_t>(task.count, 1)) {
    const uint64_t bytes = (task.count + task.offset + 16) * width_;
    for (uint32_t source = 0; source < task.sources; ++source) {
      std::vector<uint8_t> data(bytes);
      oracle_.Fill(static_cast<int>(source), 0, task.count, data.data());
      sources_.push_back(bench.Allocate(bytes) + task.offset * width_);
      bench.Write(sources_.back(), data.data(), task.count * width_);
    }
    result_ = task.in_place ? sources_[0] : bench.Allocate(bytes) + task.offset * width_;
  }

  uint8_t* result() const { return result_; }
  uint8_t* source(uint32_t index) const { return sources_[index]; }
  const void* const* sources() const { return reinterpret_cast<const void* const*>(sources_.data()); }
  // Of this source's contribution; the oracle's multiplier of a rank.
  sl_reduce_scale_t Scale(uint32_t source) const {
    sl_reduce_scale_t scale{};
    tools::MathOf(static_cast<DataType>(task_.datatype)).Scalar(static_cast<int>(source), &scale.scalar_bits);
    scale.world = task_.sources;
    return scale;
  }
  void Check(const uint8_t* result, const char* how) {
    const std::vector<uint8_t> got = bench_.Read(result, task_.count * width_);
    const size_t wrong = oracle_.CheckReduced(0, task_.count, got.data());
    bench_.trial.Expect(wrong == 0, "{}: {}: {} of {} elements are wrong", how, task_.ToString(), wrong, task_.count);
  }

 private:
  Bench& bench_;
  const Task task_;
  const uint64_t width_;
  tools::Oracle oracle_;
  std::vector<uint8_t*> sources_;
  uint8_t* result_ = nullptr;
};

// Calls reduce(dst, srcs, n_srcs, scale) as one collective would. Every source has its own multiplier, so for
// SL_PREMUL_SUM each is scaled by itself first.
template <typename ReduceCall>
void RunTask(const Task& task, const Table& table, ReduceCall reduce) {
  sl_reduce_scale_t scale = table.Scale(0);
  if (task.reduction == SL_PREMUL_SUM) {
    for (uint32_t source = 0; source < task.sources; ++source) {
      scale = table.Scale(source);
      scale.premul_mask = 1;
      const void* one = table.source(source);
      reduce(table.source(source), &one, 1u, scale);
    }
    scale.premul_mask = 0;
  }
  if (task.reduction == SL_AVG) scale.flags = SL_REDUCE_FINAL;
  reduce(table.result(), table.sources(), task.sources, scale);
}

std::vector<Task> Tasks(const Trial& trial) {
  std::vector<Task> tasks;
  Random random(trial.seed());
  std::vector<uint64_t> counts = {0, 1, random.Between(2, 40), random.Between(500, 1100)};
  if (trial.full()) counts.insert(counts.end(), {2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 4099, 100003});
  for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
    for (sl_reduction_t reduction = 0; reduction < SL_REDUCTION_COUNT; ++reduction) {
      for (const uint64_t count : counts) {
        for (const uint32_t sources : {2u, 3u, 8u}) {
          tasks.push_back({type, reduction, sources, count, random.Below(17), random.Below(3) == 0});
        }
      }
    }
  }
  return tasks;
}

void OnStreams(Trial& trial) {
  Bench bench(trial);
  const auto* slots = static_cast<const sl_device_ops_t*>(bench.subject.table);
  if (!SL_HAS(slots, sl_device_ops_t, reduce) || slots->reduce == nullptr) trial.Skip("the device has no reductions");
  uint8_t* memory = bench.Allocate(64);
  const void* source = memory;
  if (!bench.Can(SL_DEVICE_MEMORY_IS_HOST) && bench.ops.reduce(bench.device, nullptr, memory, &source, 1, 1, SL_FLOAT32,
                                                               SL_SUM, nullptr) == SL_ERR_UNSUPPORTED) {
    trial.Skip("this build of the module has no reductions: " + ErrorText());
  }
  sl_stream_t* stream = bench.MakeStream();
  Random random(trial.seed() + 1);
  Bench scratch(trial);
  for (const Task& task : Tasks(trial)) {
    scratch.ReleaseMemory();
    Table table(scratch, task, trial.seed());
    sl_stream_t* on = random.Below(2) == 0 ? stream : nullptr;
    RunTask(task, table, [&](uint8_t* dst, const void* const* srcs, uint32_t n, const sl_reduce_scale_t& scale) {
      bench.Good(bench.ops.reduce(bench.device, on, dst, srcs, n, task.count, task.datatype, task.reduction, &scale),
                 "reduce");
    });
    bench.Wait(on);
    table.Check(table.result(), on == nullptr ? "on the default stream" : "on a stream");
  }
}

void ByFunction(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_MEMORY_IS_HOST, "memory that CPUs reach");
  for (const Task& task : Tasks(trial)) {
    const sl_reduce_fn function = bench.ops.reduce_function(bench.device, task.datatype, task.reduction);
    if (!trial.Expect(function != nullptr, "there is no function for {} of {}", ReductionName(task.reduction),
                      DatatypeName(task.datatype))) {
      continue;
    }
    Bench scratch(trial);
    Table table(scratch, task, trial.seed());
    uint8_t* second = scratch.Allocate((task.count + 16) * DatatypeBytes(task.datatype));
    RunTask(task, table, [&](uint8_t* dst, const void* const* srcs, uint32_t n, const sl_reduce_scale_t& scale) {
      function(dst, second, srcs, n, task.count, &scale);
    });
    table.Check(table.result(), "by function");
    table.Check(second, "by function, the second result");
  }
}

// A hint never changes bits, a copy is one source, and what is no pair has no function.
void Corners(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_MEMORY_IS_HOST, "memory that CPUs reach");
  for (const auto& [type, reduction] : {std::pair{SL_DATATYPE_COUNT, SL_SUM}, std::pair{SL_FLOAT32, SL_REDUCTION_COUNT},
                                        std::pair{UINT32_MAX, UINT32_MAX}}) {
    trial.Expect(bench.ops.reduce_function(bench.device, type, reduction) == nullptr,
                 "there is a function for type {} and reduction {}", type, reduction);
    const float value = 1;
    const void* source = &value;
    float result = 0;
    const sl_status_t status =
        bench.ops.reduce(bench.device, nullptr, &result, &source, 1, 1, type, reduction, nullptr);
    trial.Expect(status == SL_ERR_INVALID, "reduce of type {} and reduction {} gave {}", type, reduction,
                 StatusName(status));
  }
  for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
    const sl_reduce_fn sum = bench.ops.reduce_function(bench.device, type, SL_SUM);
    if (sum == nullptr) continue;
    constexpr uint64_t kCount = 5000;
    const Task task{type, SL_SUM, 2, kCount, 0, false};
    Table table(bench, task, trial.seed());
    const uint64_t bytes = kCount * DatatypeBytes(type);
    uint8_t* plain = bench.Allocate(bytes);
    uint8_t* hinted = bench.Allocate(bytes);
    const sl_reduce_scale_t hint{0, 2, SL_REDUCE_STREAM_STORES, 0};
    sum(plain, nullptr, table.sources(), 2, kCount, nullptr);
    sum(hinted, nullptr, table.sources(), 2, kCount, &hint);
    trial.Expect(std::memcmp(plain, hinted, bytes) == 0, "{}: a hint changed the bits", DatatypeName(type));
    sum(hinted, nullptr, table.sources(), 1, kCount, nullptr);
    trial.Expect(std::memcmp(hinted, table.source(0), bytes) == 0, "{}: of one source, the sum is no copy",
                 DatatypeName(type));
  }
}

// dst[i] = op(srcs[0][i], srcs[1][i], …) in that order: equal inputs, equal bits, however the range is cut.
void SameBits(Trial& trial) {
  Bench bench(trial);
  bench.Need(SL_DEVICE_MEMORY_IS_HOST, "memory that CPUs reach");
  Random random(trial.seed());
  for (sl_datatype_t type = 0; type < SL_DATATYPE_COUNT; ++type) {
    for (sl_reduction_t reduction = 0; reduction < SL_REDUCTION_COUNT; ++reduction) {
      const sl_reduce_fn function = bench.ops.reduce_function(bench.device, type, reduction);
      if (function == nullptr) continue;
      constexpr uint64_t kCount = 777;
      const uint64_t width = DatatypeBytes(type);
      Bench scratch(trial);
      Table table(scratch, {type, reduction, 5, kCount, 1, false}, trial.seed());
      const sl_reduce_scale_t scale = table.Scale(1);
      uint8_t* whole = scratch.Allocate(kCount * width);
      function(whole, nullptr, table.sources(), 5, kCount, &scale);
      uint8_t* parts = scratch.Allocate(kCount * width);
      for (uint64_t done = 0; done < kCount;) {
        const uint64_t part = std::min(random.Between(1, 70), kCount - done);
        const void* sources[5];
        for (uint32_t i = 0; i < 5; ++i) sources[i] = table.source(i) + done * width;
        function(parts + done * width, nullptr, sources, 5, part, &scale);
        done += part;
      }
      trial.Expect(std::memcmp(whole, parts, kCount * width) == 0, "{} of {}: cut into parts, other bits",
                   ReductionName(reduction), DatatypeName(type));
    }
  }
}

}  // namespace

std::vector<Test> ReduceTests() {
  return {
      {"Reduce.IsRightOnStreams", "all types and operations, 2 to 8 sources, any alignment, in place", OnStreams, 20},
      {"Reduce.IsRightByFunction", "the same by reduce_function, with a second result", ByFunction, 20},
      {"Reduce.KeepsToItsCorners", "no function for what is no pair; hints change no bits; one source is a copy",
       Corners},
      {"Reduce.GivesTheSameBitsInParts", "the order of sources alone decides, not where a range is cut", SameBits},
  };
}

}  // namespace sl::conform::device

// SPDX-License-Identifier: Apache-2.0
//
// What lies between a program's call and the algorithm: nanoseconds from ncclAllReduce to the entry of an algorithm
// that does nothing (probe.cc), and back. Plan warm, one rank, default stream. And what a call through another module's
// table costs beside a direct one. Prints one JSON line.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/dispatch/clock.h"
#include "nccl.h"
#include "sl_algorithm.h"

namespace {

using sl::NowNs;
using sl::bench::Ticks;

constexpr int kWarmCalls = 20000;
constexpr int kCalls = 200000;
constexpr int kMaxKinds = 16;

// The build folder, which holds this program.
std::string Root() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  const std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  return program.substr(0, program.rfind("/bin/"));
}

// The modules of the tree, the probe, and the profile that chooses it, all beside this program.
void SetEnvironment() {
  const std::string root = Root();
  setenv("STARLING_MODULE_PATH", (root + "/lib/starling:" + root + "/lib/bench").c_str(), 1);
  setenv("STARLING_PROFILE", (root + "/lib/bench/dispatch.toml").c_str(), 1);
}

double NsPerTick() {
  const uint64_t ns = NowNs();
  const uint64_t ticks = Ticks();
  while (NowNs() - ns < 50'000'000) {
  }
  const uint64_t ns_passed = NowNs() - ns;
  return static_cast<double>(ns_passed) / static_cast<double>(Ticks() - ticks);
}

struct Spread {
  double median, low, high;  // 10th and 90th percentile
};

Spread SpreadOf(std::vector<uint64_t> ticks, double ns_per_tick) {
  std::sort(ticks.begin(), ticks.end());
  const auto at = [&](double part) {
    return static_cast<double>(ticks[static_cast<size_t>(part * static_cast<double>(ticks.size() - 1))]) * ns_per_tick;
  };
  return {at(0.5), at(0.1), at(0.9)};
}

struct Samples {
  std::vector<uint64_t> to_entry, to_return, clock;
  double call_ns = 0;  // mean of whole calls, clock readings included
};

// `kinds` different counts in turn: 1 is what the kernel remembers best, more go through its cache of plans.
bool Measure(ncclComm_t comm, int kinds, Samples* samples) {
  uint64_t send[kMaxKinds] = {};
  uint64_t recv[kMaxKinds] = {};
  uint64_t begin_ns = 0;
  for (auto* ticks : {&samples->to_entry, &samples->to_return, &samples->clock}) ticks->resize(kCalls);
  for (int i = -kWarmCalls; i < kCalls; ++i) {
    if (i == 0) begin_ns = NowNs();
    const size_t count = 2 * (1 + static_cast<size_t>((i + kWarmCalls) % kinds));
    const uint64_t before = Ticks();
    const uint64_t start = Ticks();
    if (ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess) return false;
    const uint64_t end = Ticks();
    const uint64_t entered = recv[0];
    if (entered < start || entered > end) {
      std::fprintf(stderr, "bench_dispatch: another algorithm than the probe was chosen\n");
      return false;
    }
    if (i < 0) continue;
    const auto at = static_cast<size_t>(i);
    samples->clock[at] = start - before;
    samples->to_entry[at] = entered - start;
    samples->to_return[at] = end - entered;
  }
  samples->call_ns = static_cast<double>(NowNs() - begin_ns) / kCalls;
  return true;
}

// The same as the probe's Demand, in this program.
__attribute__((noinline)) sl_status_t DirectDemand(sl_instance_t*, const sl_comm_shape_t* shape, sl_demand_t* out) {
  out->symmetric_bytes = shape->size;
  return SL_OK;
}

struct CallCost {
  double direct_ns = 0, table_ns = 0;  // medians of kCallRounds means, interleaved
};

bool MeasureCalls(CallCost* cost) {
  constexpr int kCallRounds = 501;
  constexpr int kCallsPerRound = 10000;
  void* file = dlopen((Root() + "/lib/bench/dispatch-probe.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto query = reinterpret_cast<sl_module_query_fn>(file != nullptr ? dlsym(file, "sl_module_query") : nullptr);
  const sl_hello_t hello = {sizeof(hello),        0,       SL_MODULE_MAGIC, SL_CONTAINER_VERSION,
                            SL_CONTAINER_VERSION, "bench", SL_ABI_BUILD_ID};
  const sl_module_t* module = nullptr;
  if (query == nullptr || query(&hello, &module) != SL_OK) return false;
  const auto* ops = static_cast<const sl_algorithm_ops_t*>(module->provides[0]->ops);
  sl_comm_shape_t shape{};
  sl_demand_t demand{};
  const auto mean_ns = [&](auto call) {
    const uint64_t begin_ns = NowNs();
    for (int i = 0; i < kCallsPerRound; ++i) {
      shape.size = static_cast<uint32_t>(i);
      call();
      asm volatile("" : : "r"(&demand) : "memory");
    }
    return static_cast<double>(NowNs() - begin_ns) / kCallsPerRound;
  };
  std::vector<double> direct, table;
  for (int round = 0; round < kCallRounds; ++round) {
    direct.push_back(mean_ns([&] { DirectDemand(nullptr, &shape, &demand); }));
    table.push_back(mean_ns([&] { ops->demand(nullptr, &shape, &demand); }));
  }
  std::sort(direct.begin(), direct.end());
  std::sort(table.begin(), table.end());
  *cost = {direct[kCallRounds / 2], table[kCallRounds / 2]};
  return true;
}

void Print(const char* name, const Samples& samples, double ns_per_tick) {
  const Spread entry = SpreadOf(samples.to_entry, ns_per_tick);
  const Spread back = SpreadOf(samples.to_return, ns_per_tick);
  const Spread reading = SpreadOf(samples.clock, ns_per_tick);
  std::printf(
      "\"%s\": {\"entry_ns\": %.1f, \"entry_low_ns\": %.1f, \"entry_high_ns\": %.1f, \"return_ns\": %.1f, "
      "\"call_ns\": %.1f, \"clock_ns\": %.1f}",
      name, entry.median, entry.low, entry.high, back.median, samples.call_ns, reading.median);
}

}  // namespace

int main() {
  SetEnvironment();
  ncclComm_t comm = nullptr;
  Samples same, mixed;
  CallCost cost;
  if (!MeasureCalls(&cost)) {
    std::fprintf(stderr, "bench_dispatch: lib/bench/dispatch-probe.so is missing or no module; build the whole tree\n");
    return 1;
  }
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess || !Measure(comm, 1, &same) ||
      !Measure(comm, kMaxKinds, &mixed)) {
    std::fprintf(stderr, "bench_dispatch: %s\n", ncclGetLastError(nullptr));
    return 1;
  }
  const double ns_per_tick = NsPerTick();
  std::printf("{\"calls\": %d, ", kCalls);
  Print("same", same, ns_per_tick);
  std::printf(", ");
  Print("mixed", mixed, ns_per_tick);
  std::printf(", \"module_call\": {\"direct_ns\": %.2f, \"table_ns\": %.2f}}\n", cost.direct_ns, cost.table_ns);
  ncclCommDestroy(comm);
  return 0;
}

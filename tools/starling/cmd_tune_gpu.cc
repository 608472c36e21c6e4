// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/cmd_tune_gpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

#include "tools/gpu/bench_member.h"
#include "tools/gpu/cuda_api.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/bench_tune_file.h"
#include "tools/starling/bench_tune_table.h"
#include "tools/starling/cmd_tune_modules.h"
#include "tools/starling/launch_coordinator.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

constexpr char kPartVariable[] = "STARLING_TOOL_TUNE_GPU";  // "<deadline, CLOCK_MONOTONIC ns> <file of cells>"
constexpr int kSamples = 3;
constexpr int kRefinements = 2;           // after them sizes are 1.4 times apart where the quickest changes
constexpr double kRefinementSeconds = 8;  // of one: mostly starts of processes that use CUDA

// One algorithm at one point.
struct Cell {
  int gpus = 0;
  Collective collective{};
  size_t bytes = 0;
  double us = 0;      // the slowest GPU's, of the quickest sample; 0: not measured, or the algorithm does not serve it
  uint64_t hash = 0;  // of all results
};

// FNV-1a (Fowler, Noll, Vo), to compare what algorithms leave.
uint64_t HashOf(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

std::string TextOf(const std::vector<Cell>& cells) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Cell& cell : cells) {
    rows.push_back({cell.gpus, static_cast<int>(cell.collective), cell.bytes, cell.us, cell.hash});
  }
  return rows.dump() + "\n";
}

std::vector<Cell> ReadCells(const std::string& file) {
  std::vector<Cell> cells;
  std::ifstream stream(file);
  try {
    for (const nlohmann::json& row : nlohmann::json::parse(stream)) {
      cells.push_back({row[0], static_cast<Collective>(row[1].get<int>()), row[2], row[3], row[4]});
    }
  } catch (const nlohmann::json::exception& error) {
    throw CommandError(kExitFailure, file + ": cannot read what was measured: " + error.what());
  }
  return cells;
}

// In a process that one algorithm serves in: a thread for each GPU, one number of GPUs after the other.
class AlgorithmRun {
 public:
  AlgorithmRun(const TuneOptions& options, int64_t deadline_ns, Coordinator* coordinator)
      : options_(options),
        deadline_ns_(deadline_ns),
        coordinator_(*coordinator),
        libraries_{LoadNccl(DefaultLibrary())} {}

  // What `wanted` names, as far as time allows.
  std::vector<Cell> Run(const std::vector<Cell>& wanted) {
    for (auto gpus = options_.gpus.rbegin(); gpus != options_.gpus.rend(); ++gpus) {
      std::vector<Cell> over;
      std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(over),
                   [gpus](const Cell& cell) { return cell.gpus == *gpus; });
      if (!over.empty()) MeasureOver(*gpus, over);
    }
    return std::move(cells_);
  }

 private:
  void MeasureOver(int gpus, const std::vector<Cell>& wanted) {
    std::vector<NcclUniqueId> ids(1);
    CheckNccl(libraries_[0], libraries_[0].GetUniqueId(ids.data()), "ncclGetUniqueId", nullptr);
    bench::Meeting meeting(gpus);
    mine_.assign(static_cast<size_t>(gpus), Cell());
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(gpus));
    for (int rank = 0; rank < gpus; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Take(rank, gpus, wanted, ids, &meeting);
        } catch (const CommandError& error) {
          std::fprintf(stderr, "starling bench --tune: %s\n", error.what());
          coordinator_.Fail();
          std::fflush(stderr);
          std::_Exit(error.exit_code());  // the others wait inside the library
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // The part of one GPU. All see alike when time is up, and what is refused. What plain buffers are refused for is
  // tried in symmetric windows: there are algorithms for those alone.
  void Take(int rank, int gpus, const std::vector<Cell>& wanted, const std::vector<NcclUniqueId>& ids,
            bench::Meeting* meeting) {
    gpu::UseDevice(rank);
    bench::Member member(libraries_, rank, gpus, options_.type, RedOp::kSum, options_.max_bytes);
    member.Open(ids, {});
    std::vector<Cell> left = wanted;
    for (const bench::Memory memory : {bench::Memory::kPlain, bench::Memory::kSymmetric}) {
      if (left.empty()) return;
      member.Use(memory);
      std::vector<Cell> refused;
      for (const Cell& cell : left) {
        if (rank == 0) {
          late_ = MonotonicNs() > deadline_ns_;
          coordinator_.Doing(std::string(Name(cell.collective)) + " of " + std::to_string(cell.bytes) + " bytes");
          coordinator_.Tick();
        }
        meeting->Wait();
        if (late_) return;
        mine_[static_cast<size_t>(rank)] = Measure(&member, cell, memory, meeting);
        meeting->Wait();
        const Cell together = Together(mine_);
        const bool is_over = together.us != 0 || memory == bench::Memory::kSymmetric;
        if (is_over && rank == 0) cells_.push_back(together);
        if (!is_over) refused.push_back(cell);
        meeting->Wait();
      }
      left = std::move(refused);
    }
  }

  Cell Measure(bench::Member* member, Cell cell, bench::Memory memory, bench::Meeting* meeting) const {
    const bench::Point what{Name(cell.collective), cell.collective, bench::Issue::kGraph, memory, cell.bytes};
    try {
      cell.hash = HashOf(member->Result(0, what, meeting));
      for (int sample = 0; sample < kSamples; ++sample) {
        const double us = member->Measure(0, what, meeting);
        cell.us = sample == 0 ? us : std::min(cell.us, us);
      }
    } catch (const NcclError& error) {
      if (error.result() != kNcclInvalidUsage) throw;  // else it was refused, before anything was issued
    }
    return cell;
  }

  static Cell Together(const std::vector<Cell>& mine) {
    Cell cell = mine[0];
    for (const Cell& one : mine) {
      cell.us = std::max(cell.us, one.us);
      cell.hash = cell.hash * 31 + one.hash;
    }
    return cell;
  }

  const TuneOptions& options_;
  const int64_t deadline_ns_;
  Coordinator& coordinator_;
  const std::vector<NcclApi> libraries_;
  std::vector<Cell> mine_;  // of each GPU
  bool late_ = false;       // written by rank 0 between meetings
  std::vector<Cell> cells_;
};

int RunAlgorithm(const TuneOptions& options, const Identity& identity) {
  std::istringstream part(std::getenv(kPartVariable) == nullptr ? "" : std::getenv(kPartVariable));
  int64_t deadline_ns = 0;
  std::string file;
  if (!(part >> deadline_ns) || !std::getline(part >> std::ws, file)) {
    throw CommandError(kExitUsage, std::string(kPartVariable) + " is set by starling itself; unset it");
  }
  SharedSegment segment = SharedSegment::Adopt(identity.segment_fd);
  const std::unique_ptr<Coordinator> coordinator =
      MakeSegmentCoordinator(segment.get(), identity.process, options.timeout_s);
  if (const std::string why = gpu::OpenCuda(); !why.empty()) throw CommandError(kExitFailure, why);
  const std::vector<Cell> measured = AlgorithmRun(options, deadline_ns, coordinator.get()).Run(ReadCells(file));
  std::ofstream(file) << TextOf(measured);
  std::fflush(stdout);
  std::_Exit(kExitGood);  // the communicators end with the process
}

class GpuTuner {
 public:
  GpuTuner(TuneOptions options, std::vector<std::string> arguments)
      : options_(std::move(options)), arguments_(std::move(arguments)), scratch_(options_.file) {}

  int Run() {
    const std::string rest = WithoutTuneSection(ProfileText(options_.file), options_.file);
    if (const std::string why = gpu::OpenCuda(); !why.empty()) {
      std::printf("starling bench --tune: %s; 0 points measured, nothing is written\n", why.c_str());
      return kExitGood;
    }
    if (options_.gpus.back() > gpu::DeviceCount()) {
      throw CommandError(kExitUsage, "--gpus: there are " + std::to_string(gpu::DeviceCount()));
    }
    modules_ = FindModules(rest, options_.file, "cuda", options_.gpus.front(), &scratch_);
    const int64_t end_ns = MonotonicNs() + static_cast<int64_t>(options_.budget_s * 1e9);
    std::vector<Cell> wanted = Grid();
    for (; !wanted.empty(); ++round_) {
      if (const int failed = MeasureAll(rest, wanted, end_ns); failed != kExitGood) return failed;
      const double left_s = static_cast<double>(end_ns - MonotonicNs()) / 1e9;
      if (round_ == kRefinements || left_s < kRefinementSeconds) break;
      wanted = Between(ChangesOf(Curves()));
    }
    TuneTable table;
    table.machine = std::to_string(options_.gpus.back()) + " x " + gpu::DeviceName(0);
    table.date = Today();
    table.starling = SL_VERSION;
    table.datatype = Name(options_.type);
    table.modules = modules_.versions;
    table.device = "cuda";
    table.curves = Curves();
    if (table.curves.empty()) {
      throw CommandError(kExitFailure, "nothing was measured within the budget; give more with --budget");
    }
    scratch_.Replace(rest, TuneSection(table));
    std::printf("%s%s%s: costs of %zu algorithms in %zu curves\n", TimesText(table.curves).c_str(),
                WinnersText(table).c_str(), options_.file.c_str(), Measured().size(), table.curves.size());
    return kExitGood;
  }

 private:
  std::vector<Cell> Grid() const {
    std::vector<Cell> cells;
    for (const int gpus : options_.gpus) {
      for (const TunePoint& point : TunePoints(options_, gpus)) cells.push_back({gpus, point.collective, point.bytes});
    }
    return cells;
  }

  std::vector<Cell> Between(const std::vector<TuneGap>& gaps) const {
    std::vector<Cell> cells;
    for (const TuneGap& gap : gaps) {
      if (const size_t bytes = MiddleOf(gap, options_.type); bytes != 0) {
        cells.push_back({gap.ranks, gap.collective, bytes});
      }
    }
    return cells;
  }

  std::vector<std::string> Measured() const {
    std::vector<std::string> algorithms;
    std::copy_if(modules_.algorithms.begin(), modules_.algorithms.end(), std::back_inserter(algorithms),
                 [this](const std::string& name) { return useless_.count(name) == 0; });
    return algorithms;
  }

  // Each algorithm has an equal part of what is left of the time.
  int MeasureAll(const std::string& rest, const std::vector<Cell>& wanted, int64_t end_ns) {
    const std::vector<std::string> algorithms = Measured();
    for (size_t i = 0; i < algorithms.size(); ++i) {
      const int64_t now_ns = MonotonicNs();
      const int64_t share_ns = (end_ns - now_ns) / static_cast<int64_t>(algorithms.size() - i);
      const int failed = MeasureAlgorithm(algorithms[i], rest, wanted, now_ns + share_ns);
      if (failed != kExitGood) return failed;
    }
    return kExitGood;
  }

  int MeasureAlgorithm(const std::string& algorithm, const std::string& rest, const std::vector<Cell>& wanted,
                       int64_t deadline_ns) {
    const std::string results = scratch_.Add(algorithm + ".json", TextOf(wanted));
    const std::string profile = scratch_.Add(algorithm + ".toml", OnlyProfile(rest, modules_.algorithms, algorithm));
    LaunchSpec spec;
    spec.command = {SelfPath(), "bench"};
    spec.command.insert(spec.command.end(), arguments_.begin(), arguments_.end());
    spec.environment = {{kPartVariable, std::to_string(deadline_ns) + " " + results}, {"STARLING_PROFILE", profile}};
    spec.timeout_s = options_.timeout_s;
    spec.bind = false;
    std::printf("# %s: %zu to measure\n", algorithm.c_str(), wanted.size());
    std::fflush(stdout);
    const LaunchResult result = LaunchLocal(spec);
    if (result.exit_code != kExitGood) {
      if (!result.explained) std::fprintf(stderr, "starling bench --tune: %s\n", result.failure.c_str());
      return result.exit_code;
    }
    const std::vector<Cell> cells = ReadCells(results);
    for (const Cell& cell : cells) cells_[{cell.gpus, cell.collective, cell.bytes}].emplace(algorithm, cell);
    const bool serves = std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.us != 0; });
    if (!serves && cells.size() == wanted.size() && round_ == 0) useless_.insert(algorithm);
    return kExitGood;
  }

  // Of the points that every algorithm serves or refuses. Throws when two leave different results.
  std::vector<TuneCurve> Curves() const {
    const std::vector<std::string> measured = Measured();
    std::vector<TuneCurve> curves;
    std::map<std::pair<int, Collective>, std::map<std::string, TuneCurve>> groups;
    for (const auto& [key, cells] : cells_) {
      const auto& [gpus, collective, bytes] = key;
      const bool is_whole = std::all_of(measured.begin(), measured.end(),
                                        [&cells = cells](const auto& name) { return cells.count(name) != 0; });
      if (!is_whole) continue;
      std::optional<uint64_t> hash;
      for (const auto& [algorithm, cell] : cells) {
        if (cell.us == 0) continue;
        if (hash.value_or(cell.hash) != cell.hash) {
          throw CommandError(kExitFailure, algorithm + " leaves another result than the algorithms before: " +
                                               Name(collective) + " of " + std::to_string(bytes) + " bytes over " +
                                               std::to_string(gpus) + " GPUs; nothing is written");
        }
        hash = cell.hash;
        TuneCurve& curve = groups[{gpus, collective}][algorithm];
        curve.collective = collective;
        curve.ranks = gpus;
        curve.algorithm = algorithm;
        curve.points.emplace_back(bytes, cell.us);
      }
    }
    for (auto& [key, group] : groups) {
      for (auto& [algorithm, curve] : group) curves.push_back(std::move(curve));
    }
    return curves;
  }

  const TuneOptions options_;
  const std::vector<std::string> arguments_;
  Scratch scratch_;
  TunedModules modules_;
  std::set<std::string> useless_;  // algorithms that refused all of the grid
  int round_ = 0;                  // 0: the grid; then sizes between
  std::map<std::tuple<int, Collective, size_t>, std::map<std::string, Cell>> cells_;
};

}  // namespace

int TuneGpus(TuneOptions options, const std::vector<std::string>& arguments, const Identity& identity) {
  if (identity.from_starling()) return RunAlgorithm(options, identity);
  if (identity.processes > 1) {
    throw CommandError(kExitUsage, "--tune uses all GPUs itself, on this host: call it once, without a launcher");
  }
  return GpuTuner(std::move(options), arguments).Run();
}

}  // namespace sl::tools

// SPDX-License-Identifier: Apache-2.0
// `starling bench --tune`: starts the processes that measure, for one number of ranks after the other, and writes what
// they found into the profile.
#include "tools/starling/cmd_tune.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_result.h"
#include "tools/starling/bench_tune_file.h"
#include "tools/starling/bench_tune_session.h"
#include "tools/starling/bench_tune_table.h"
#include "tools/starling/bench_worker.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/cmd_tune_gpu.h"
#include "tools/starling/cmd_tune_modules.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

constexpr int kExplainedRanks = 64;  // at most

class Tuner {
 public:
  Tuner(TuneOptions options, std::vector<std::string> arguments)
      : options_(std::move(options)), arguments_(std::move(arguments)), scratch_(options_.file) {}

  int Run() {
    const std::string rest = WithoutTuneSection(ProfileText(options_.file), options_.file);
    Prepare(rest);
    const int64_t end_ns = MonotonicNs() + static_cast<int64_t>(options_.budget_s * 1e9);
    for (size_t i = 0; i < options_.ranks.size(); ++i) {
      const int64_t now_ns = MonotonicNs();
      const int64_t share_ns = (end_ns - now_ns) / static_cast<int64_t>(options_.ranks.size() - i);
      if (const int failed = MeasureOver(options_.ranks[i], now_ns + share_ns); failed != kExitGood) return failed;
    }
    if (table_.curves.empty()) {
      throw CommandError(kExitFailure,
                         "nothing was measured within the budget of " + Seconds() + "; give more with --budget");
    }
    scratch_.Replace(rest, TuneSection(table_));
    const TuneCurve& curve = table_.curves.front();
    printf("%s%s: costs of %zu algorithms in %zu curves; see them decide:\n", WinnersText(table_).c_str(),
           options_.file.c_str(), modules_.algorithms.size(), table_.curves.size());
    printf("  starling explain %s %zu --ranks %d --profile %s\n", Name(curve.collective), curve.points.back().first,
           curve.ranks, options_.file.c_str());
    return kExitGood;
  }

 private:
  std::string Seconds() const {
    std::ostringstream text;
    text << options_.budget_s << " s";
    return text.str();
  }

  void Prepare(const std::string& rest) {
    modules_ = FindModules(rest, options_.file, "host", std::min(options_.ranks.front(), kExplainedRanks), &scratch_);
    const auto most = static_cast<int>(static_cast<size_t>(kMaxLocalProcesses) / modules_.algorithms.size());
    for (const int ranks : options_.ranks) {
      if (ranks <= most) continue;
      throw CommandError(kExitUsage, "--ranks " + std::to_string(ranks) + ": with " +
                                         std::to_string(modules_.algorithms.size()) + " algorithms at most " +
                                         std::to_string(most) + " ranks can be measured");
    }
    for (const std::string& algorithm : modules_.algorithms) {
      profiles_.push_back(scratch_.Add(algorithm + ".toml", OnlyProfile(rest, modules_.algorithms, algorithm)));
    }
    table_.machine = ProcessorName() + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors";
    table_.date = Today();
    table_.starling = SL_VERSION;
    table_.datatype = Name(options_.type);
    table_.modules = modules_.versions;
  }

  int MeasureOver(int ranks, int64_t deadline_ns) {
    TunePart part;
    part.ranks = ranks;
    part.deadline_ns = deadline_ns;
    part.algorithms = modules_.algorithms;
    part.profiles = profiles_;
    part.result_file = scratch_.Add(std::to_string(ranks) + ".json", "");
    LaunchSpec spec;
    spec.command = {SelfPath(), "bench"};
    spec.command.insert(spec.command.end(), arguments_.begin(), arguments_.end());
    spec.environment = {{kTunePartVariable, part.ToText()}};
    spec.turns = static_cast<int>(part.algorithms.size());
    spec.processes = spec.workers = ranks * spec.turns;
    spec.timeout_s = options_.timeout_s;
    const std::vector<TunePoint> points = TunePoints(options_, ranks);
    printf("# %d ranks: %zu points by %d algorithms\n", ranks, points.size(), spec.turns);
    fflush(stdout);
    const LaunchResult result = LaunchLocal(spec);
    if (result.exit_code != kExitGood) {
      if (!result.explained) fprintf(stderr, "starling bench --tune: %s\n", result.failure.c_str());
      return result.exit_code;
    }
    Take(ranks, points, ReadTuneCells(part.result_file));
    return kExitGood;
  }

  // Keeps the points that every algorithm serves or refuses: one that was reached by some only would favour them.
  void Take(int ranks, const std::vector<TunePoint>& points, const TuneCells& cells) {
    std::vector<TuneCurve> curves;
    for (const Collective collective : options_.collectives) {
      for (const std::string& algorithm : modules_.algorithms) curves.push_back({collective, ranks, algorithm, {}});
    }
    std::map<Collective, size_t> missing;  // the smallest size; larger ones are missing, too
    for (size_t i = 0; i < points.size(); ++i) {
      const bool reached = i < cells.size() && std::all_of(cells[i].begin(), cells[i].end(), [](const TuneCell& cell) {
                             return cell.refused || !cell.samples_us.empty();
                           });
      if (!reached) {
        missing.try_emplace(points[i].collective, points[i].bytes);
        continue;
      }
      for (TuneCurve& curve : curves) {
        if (curve.collective != points[i].collective) continue;
        const auto algorithm = std::find(modules_.algorithms.begin(), modules_.algorithms.end(), curve.algorithm);
        const TuneCell& cell = cells[i][static_cast<size_t>(algorithm - modules_.algorithms.begin())];
        if (cell.wrong != 0) {
          throw CommandError(kExitFailure, curve.algorithm + " gives wrong results: " + std::to_string(cell.wrong) +
                                               " elements of " + Name(curve.collective) + " of " +
                                               std::to_string(points[i].bytes) + " bytes over " +
                                               std::to_string(ranks) + " ranks; nothing is written");
        }
        if (!cell.refused) curve.points.emplace_back(points[i].bytes, Median(cell.samples_us));
      }
    }
    if (!missing.empty()) {
      std::string text;
      for (const auto& [collective, bytes] : missing) {
        text += (text.empty() ? "" : ", ") + std::string(Name(collective)) + " from " + std::to_string(bytes);
      }
      printf("# the budget of %s ended early; over %d ranks estimates decide on %s bytes on\n", Seconds().c_str(),
             ranks, text.c_str());
    }
    for (TuneCurve& curve : curves) {
      if (!curve.points.empty()) table_.curves.push_back(std::move(curve));
    }
  }

  const TuneOptions options_;
  const std::vector<std::string> arguments_;
  Scratch scratch_;
  TunedModules modules_;
  std::vector<std::string> profiles_;
  TuneTable table_;
};

}  // namespace

int Tune(const std::vector<std::string>& arguments) {
  TuneOptions options = ParseTuneOptions(arguments);
  const Identity identity = DetectIdentity();
  if (!options.gpus.empty()) return TuneGpus(std::move(options), arguments, identity);
  if (identity.from_starling()) {
    return RunTuneProcess(options, identity, TunePart::FromEnvironment());
  }
  if (identity.processes > 1) {
    throw CommandError(kExitUsage, "--tune starts the ranks itself, on this host: call it once, without a launcher");
  }
  return Tuner(std::move(options), arguments).Run();
}

}  // namespace sl::tools

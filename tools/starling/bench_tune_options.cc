// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/bench_tune_options.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <map>
#include <thread>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/launch_local.h"

namespace sl::tools {
namespace {

constexpr char kFooter[] =
    "FILE is a profile. What it says is in effect while measuring; its section [measured] is written, or written\n"
    "anew, and nothing else of it is touched. A file that is not there is made.\n"
    "Exit code: 0 good (also when time ran out, which is said), 1 wrong result or failure, 2 bad usage.\n"
    "With --gpus the algorithms of GPUs are measured instead, in graphs. A profile holds the costs of one tuning: "
    "tune\n"
    "hosts and GPUs into files of their own.\n"
    "Examples: starling bench --tune site.toml --ranks 2,4,8\n"
    "          starling bench --tune site.toml --gpus 2,4";

// Those that bench/gpu can run.
bool IsMeasuredOnGpus(Collective collective) {
  return collective != Collective::kGather && collective != Collective::kScatter && collective != Collective::kSendRecv;
}

}  // namespace

bool AsksToTune(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument == "--tune" || argument.starts_with("--tune=");
  });
}

TuneOptions ParseTuneOptions(const std::vector<std::string>& arguments) {
  TuneOptions options;
  std::vector<std::string> collectives;
  std::string min_bytes = "4", max_bytes, factor = "4", type;
  CLI::App app("Measures what every algorithm costs on this machine and writes it into a profile.", "starling bench");
  app.footer(kFooter);
  app.add_option("collective", collectives, "as for starling bench; all when none is named");
  app.add_option("--tune", options.file, "the profile to write the costs into")->required();
  app.add_option("--ranks", options.ranks, "numbers of local ranks, comma-separated (2 and the processors)")
      ->delimiter(',')
      ->allow_extra_args(false)  // a collective may follow
      ->check(CLI::Range(1, kMaxLocalProcesses));
  app.add_option("--gpus", options.gpus, "numbers of GPUs, comma-separated: measures kernels on GPUs instead")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(2, kMaxLocalProcesses))
      ->excludes("--ranks");
  app.add_option("-b,--minbytes", min_bytes, "smallest size (4)");
  app.add_option("-e,--maxbytes", max_bytes, "largest size (16M; on GPUs 256M)");
  app.add_option("-f,--stepfactor", factor, "factor between sizes (4)");
  app.add_option("-d,--datatype", type, "data type (float; on GPUs bfloat16)");
  app.add_option("--budget", options.budget_s, "seconds for everything (60)")->check(CLI::Range(0.1, 86400.0));
  app.add_option("--repeat", options.repeat, "samples of each point, if time allows (5)")->check(CLI::Range(1, 1000));
  app.add_option("-T,--timeout", options.timeout_s, "seconds without progress before giving up (60)")
      ->check(CLI::Range(1, 86400));
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage,
                       std::string(error.what()) + " (starling bench --tune FILE --help lists every option)");
  }
  if (options.file.empty()) throw CommandError(kExitUsage, "--tune '': name the profile to write the costs into");
  if (options.file == "--help" || options.file == "-h") throw CommandError(kExitGood, app.help());
  if (options.file.starts_with('-')) {
    throw CommandError(kExitUsage, "--tune " + options.file +
                                       ": name the profile to write the costs into behind it; ./" + options.file +
                                       " if it is called so");
  }
  const bool on_gpus = !options.gpus.empty();
  if (max_bytes.empty()) max_bytes = on_gpus ? "256M" : "16M";
  if (type.empty()) type = on_gpus ? "bfloat16" : "float";
  for (const std::string& collective : collectives) options.collectives.push_back(ParseCollective(collective));
  for (int i = 0; collectives.empty() && i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!on_gpus || IsMeasuredOnGpus(collective)) options.collectives.push_back(collective);
  }
  options.min_bytes = ParseSize("-b", min_bytes);
  options.max_bytes = ParseSize("-e", max_bytes);
  options.step_factor = ParseSize("-f", factor);
  if (options.min_bytes == 0 || options.min_bytes > options.max_bytes) {
    throw CommandError(kExitUsage, "-b " + min_bytes + " -e " + max_bytes + ": sizes go from at least 1 byte upwards");
  }
  if (options.step_factor < 2) throw CommandError(kExitUsage, "-f " + factor + ": the factor must be 2 or more");
  for (const Collective collective : options.collectives) {
    if (!on_gpus || IsMeasuredOnGpus(collective)) continue;
    throw CommandError(kExitUsage, std::string(Name(collective)) + " is not measured on GPUs; leave it out");
  }
  if (ParseDataTypes(type).size() != 1) throw CommandError(kExitUsage, "-d all: costs are measured with one data type");
  options.type = ParseDataTypes(type)[0];
  if (options.ranks.empty()) options.ranks = {2, std::max(static_cast<int>(std::thread::hardware_concurrency()), 2)};
  for (std::vector<int>* numbers : {&options.ranks, &options.gpus}) {
    std::sort(numbers->begin(), numbers->end());
    numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
  }
  return options;
}

std::vector<TunePoint> TunePoints(const TuneOptions& options, int ranks) {
  std::vector<TunePoint> points;
  std::map<Collective, size_t> last;  // sizes that round to the same are one point
  for (size_t size = options.min_bytes; size <= options.max_bytes; size *= options.step_factor) {
    for (const Collective collective : options.collectives) {
      const size_t bytes = ShapeOf(collective, size, options.type, ranks).bytes;
      if (bytes <= last[collective]) continue;
      last[collective] = bytes;
      points.push_back({collective, bytes});
    }
  }
  return points;
}

}  // namespace sl::tools

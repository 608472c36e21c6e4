// SPDX-License-Identifier: Apache-2.0
// `starling bench`: decides whether this process starts others, is one of them, or is all there is.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/bench_output.h"
#include "tools/starling/bench_session.h"
#include "tools/starling/bench_tune_options.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/cmd_tune.h"
#include "tools/starling/commands.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

// Tells a started process which of several libraries it measures.
constexpr char kPartVariable[] = "STARLING_TOOL_BENCH_PART";

std::string PartFile(const std::string& json_file, size_t part) { return json_file + ".part" + std::to_string(part); }

void CheckRanks(const BenchOptions& options, int processes) {
  const long workers = static_cast<long>(processes) * options.threads;
  if (workers > kMaxWorkers) {
    throw CommandError(kExitUsage, std::to_string(workers) + " workers (processes times -t) are more than " +
                                       std::to_string(kMaxWorkers));
  }
  const long ranks = workers * options.ranks_per_thread;
  if (HasRoot(options.collective) && options.root >= ranks) {
    throw CommandError(
        kExitUsage, "-r " + std::to_string(options.root) + ": there are only ranks 0 to " + std::to_string(ranks - 1));
  }
}

// What is wrong with the profile is said once, before ranks start. Another library has no profile.
void CheckProfile(const BenchOptions& options) {
  if (options.libraries.front() != DefaultLibrary()) return;
  const char* profile = options.profile.empty() ? nullptr : options.profile.c_str();
  FetchText([&](char* text, uint64_t capacity, uint64_t* out_needed) {
    return Runtime().profile_text(profile, text, capacity, out_needed);
  });
}

void MergeParts(const BenchOptions& options) {
  nlohmann::json all = nlohmann::json::array();
  for (size_t part = 0; part < options.libraries.size(); ++part) {
    std::ifstream file(PartFile(options.json_file, part));
    nlohmann::json one = nlohmann::json::parse(file, nullptr, false);
    if (!one.is_discarded()) all.push_back(std::move(one));
    std::remove(PartFile(options.json_file, part).c_str());
  }
  std::ofstream file(options.json_file);
  file << all.dump(1) << "\n";
  file.close();
  if (!file) throw CommandError(kExitFailure, "cannot write " + options.json_file + " (-J)");
}

int LaunchAll(const BenchOptions& options, const std::vector<std::string>& arguments) {
  LaunchSpec spec;
  spec.command = {SelfPath(), "bench"};
  spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
  spec.processes = std::max(options.ranks, 1);
  spec.workers = spec.processes * options.threads;
  spec.timeout_s = options.timeout_s;
  int exit_code = kExitGood;
  for (size_t part = 0; part < options.libraries.size(); ++part) {
    spec.environment = {{kPartVariable, std::to_string(part)}};
    if (options.libraries.size() > 1) printf("# library %s\n", options.libraries[part].c_str());
    fflush(stdout);
    LaunchResult result = LaunchLocal(spec);
    if (result.exit_code && !result.explained) fprintf(stderr, "starling bench: %s\n", result.failure.c_str());
    exit_code = std::max(exit_code, result.exit_code);
  }
  if (options.libraries.size() > 1 && !options.json_file.empty()) MergeParts(options);
  return exit_code;
}

// A process that was started by LaunchAll measures the library that its part names.
void TakePart(BenchOptions& options) {
  const char* text = std::getenv(kPartVariable);
  if (!text || options.libraries.size() < 2) return;
  const size_t part = std::strtoul(text, nullptr, 10);
  if (part >= options.libraries.size()) return;
  if (!options.json_file.empty()) options.json_file = PartFile(options.json_file, part);
  options.libraries = {options.libraries[part]};
}

int Run(const std::vector<std::string>& arguments) {
  BenchOptions options = ParseBenchOptions(arguments);
  // Who starts ranks needs no launcher, and is not disturbed by what one has left.
  const bool child_of_ours = std::getenv(kLaunchVariable) != nullptr;
  const Identity identity = options.ranks > 0 && !child_of_ours ? Identity() : DetectIdentity();
  if (options.graph_launches > 0) {
    if (identity.process == 0) printf("# graph launches (-G) need a GPU: 1 measurement skipped\n");
    return kExitGood;
  }
  const bool child = identity.from_starling();
  const bool starts = !child && (options.ranks > 0 || (identity.processes == 1 && options.libraries.size() > 1));
  CheckRanks(options, starts ? std::max(options.ranks, 1) : identity.processes);
  if (access(options.libraries.front().c_str(), R_OK) != 0) {
    throw CommandError(kExitFailure, "there is no library " + options.libraries.front() +
                                         " yet: build it, or name another with --library PATH");
  }
  if (!child) CheckProfile(options);
  if (!child && identity.process == 0) CheckWritable(options.json_file, "-J", kExitFailure);
  if (starts) return LaunchAll(options, arguments);
  if (child) TakePart(options);
  if (options.libraries.size() > 1) {
    throw CommandError(kExitUsage, "several --library need --ranks: one process can hold one NCCL library");
  }
  if (!options.profile.empty()) setenv("STARLING_PROFILE", options.profile.c_str(), 1);
  return RunBenchProcess(options, identity);
}

}  // namespace

int CmdBench(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return AsksToTune(arguments) ? Tune(arguments) : Run(arguments);
  } catch (const CommandError& error) {
    fprintf(error.exit_code() ? stderr : stdout, "%s%s\n", error.exit_code() ? "starling bench: " : "", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fprintf(stderr, "starling bench: %s\n", error.what());
    return kExitFailure;
  }
}

}  // namespace sl::tools

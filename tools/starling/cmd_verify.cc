// SPDX-License-Identifier: Apache-2.0
// `starling verify`: proves that the plans of algorithms compute their collectives (docs/verify.md).
#include <algorithm>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernel/loader/catalog.h"
#include "sdk/datatype.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/bench_output.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/commands.h"
#include "tools/verify/algorithms.h"
#include "tools/verify/layout.h"
#include "tools/verify/survey_crew.h"

namespace sl::tools {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxRanks = 65535;  // of a signature
constexpr size_t kMinChunkBytes = 16;  // below, no element of every type would fit
constexpr size_t kMaxChunkBytes = size_t{1} << 30;
constexpr sl_op_kind_t kKinds[] = {SL_OP_ALL_REDUCE, SL_OP_ALL_GATHER, SL_OP_REDUCE_SCATTER,
                                   SL_OP_BROADCAST,  SL_OP_REDUCE,     SL_OP_ALL_TO_ALL,
                                   SL_OP_GATHER,     SL_OP_SCATTER,    SL_OP_SEND};

constexpr const char* kNotServed = "not served";

// A send and its receive are one thing here.
const char* NameOf(sl_op_kind_t kind) { return kind == SL_OP_SEND ? "sendrecv" : OpKindName(kind); }

struct VerifyOptions {
  std::vector<uint32_t> ranks = {2, 3, 5, 8};
  std::string algorithm;
  std::vector<sl_op_kind_t> kinds;
  std::vector<uint64_t> counts;
  std::string hosts = "1";
  size_t chunk_bytes = 0;  // 0: the profile's
  std::string profile;
  std::string module;
  std::string json_file;
  bool folds = true;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
};

sl_op_kind_t ParseKind(const std::string& name) {
  std::string known;
  for (const sl_op_kind_t kind : kKinds) {
    if (name == NameOf(kind)) return kind;
    known += std::string(known.empty() ? "" : ", ") + NameOf(kind);
  }
  if (name == "alltoall") return SL_OP_ALL_TO_ALL;  // as starling bench calls it
  throw CommandError(kExitUsage, "--collective " + name + ": there is none of that name; there are " + known);
}

VerifyOptions ParseVerifyOptions(int argc, char** argv) {
  VerifyOptions options;
  std::string collective, chunk;
  CLI::App app("Proves that plans compute their collectives, for every interleaving, input and placement.",
               "starling verify");
  app.add_option("--ranks", options.ranks, "numbers of ranks, e.g. 2,3,64 (2,3,5,8)")
      ->delimiter(',')
      ->check(CLI::Range(1u, kMaxRanks));
  app.add_option("--algorithm", options.algorithm, "only the algorithm of this name, e.g. ring");
  app.add_option("--collective", collective, "only this one, e.g. all_reduce; sendrecv is point to point");
  app.add_option("--count", options.counts, "elements, in place of counts that cut plans in every way")
      ->delimiter(',')
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 36) - 1));
  app.add_option("--hosts", options.hosts, "where ranks are: 2, 2:cyclic or, with sizes, 3+1+4 (1)");
  app.add_option("--chunk-bytes", chunk, "largest chunk of a link, e.g. 4K (the profile's)");
  auto* profile = app.add_option("--profile", options.profile, "profile name or file");
  app.add_option("--module", options.module, "only the algorithms of this file, such as a module of your own")
      ->excludes(profile);
  app.add_flag("!--no-folding", options.folds, "executes all ranks and rounds of every case: slow, for comparison");
  app.add_option("--threads", options.threads, "rows proved at a time (one a processor)")->check(CLI::Range(1u, 1024u));
  app.add_option("--json", options.json_file, "writes the outcome there, too");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling verify --help lists every option)");
  }
  if (!collective.empty()) options.kinds = {ParseKind(collective)};
  if (options.kinds.empty()) options.kinds.assign(std::begin(kKinds), std::end(kKinds));
  if (!chunk.empty()) options.chunk_bytes = ParseSize("--chunk-bytes", chunk);
  if (!chunk.empty() && (options.chunk_bytes < kMinChunkBytes || options.chunk_bytes > kMaxChunkBytes)) {
    throw CommandError(kExitUsage, "--chunk-bytes " + chunk + ": a chunk has " + std::to_string(kMinChunkBytes) +
                                       " to " + std::to_string(kMaxChunkBytes) + " bytes");
  }
  CheckWritable(options.json_file, "--json", kExitUsage);
  return options;
}

// The kernel is part of this program here, but modules lie beside libstarling.so.
void PointAtModules() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string folder = (self.parent_path().parent_path() / "lib" / "starling").string();
  setenv("STARLING_MODULE_PATH", folder.c_str(), 0);
}

[[noreturn]] void Throw(const Status& status) {
  const bool usage = status.code() == SL_ERR_CONFIG || status.code() == SL_ERR_NOT_FOUND;
  throw CommandError(usage ? kExitUsage : kExitFailure, status.message());
}

std::vector<verify::Algorithm> Chosen(const verify::Algorithms& algorithms, const VerifyOptions& options) {
  const std::string file = std::filesystem::path(options.module).filename().string();
  const std::string module = kernel::ModuleNameOfFile(file);
  std::vector<verify::Algorithm> chosen;
  std::string known;
  for (const verify::Algorithm& algorithm : algorithms.list()) {
    if (!options.module.empty() && module != algorithm.module) continue;
    known += (known.empty() ? "" : ", ") + algorithm.name;
    if (options.algorithm.empty() || options.algorithm == algorithm.name) chosen.push_back(algorithm);
  }
  if (!chosen.empty()) return chosen;
  if (known.empty()) throw CommandError(kExitUsage, "no module that provides algorithms; see starling modules");
  throw CommandError(kExitUsage,
                     "--algorithm " + options.algorithm + ": there is none of that name; there are " + known);
}

// What became of a row in a word or two.
std::string OutcomeOf(const verify::SurveyRow& row) {
  if (row.failure) return "WRONG";
  if (row.proved != 0) return "proved";
  return row.launches != 0 ? "launches, no plan" : kNotServed;
}

void PrintRow(const verify::SurveyRow& row) {
  printf("%-14s %-15s %6u %9llu %8.2f  %s", row.algorithm.c_str(), NameOf(row.kind), row.ranks,
         static_cast<unsigned long long>(row.proved), row.seconds, OutcomeOf(row).c_str());
  if (row.proved == 0 && !row.failure && !row.reason.empty()) printf(": %s", row.reason.c_str());
  printf("\n");
  if (row.failure) printf("%s\n%s", row.failure->what.c_str(), row.failure->text.c_str());
  fflush(stdout);
}

json JsonOf(const verify::SurveyRow& row) {
  json out = {{"algorithm", row.algorithm},
              {"collective", NameOf(row.kind)},
              {"ranks", row.ranks},
              {"outcome", OutcomeOf(row)},
              {"proved", row.proved},
              {"proved_by_folding", row.folded},
              {"proved_by_rotation", row.rotated},
              {"launches", row.launches},
              {"not_served", row.refused},
              {"steps", row.steps},
              {"seconds", row.seconds},
              {"reason", row.reason}};
  if (!row.failure) return out;
  out["failure"] = {{"case", row.failure->what}, {"text", row.failure->text}};
  if (!row.failure->counter_example) return out;
  const verify::CounterExample& wrong = *row.failure->counter_example;
  json& place = out["failure"]["counter_example"];
  place = {{"fault", verify::FaultName(wrong.fault)},
           {"rank", wrong.rank},
           {"element", wrong.element},
           {"holds", wrong.holds},
           {"wants", wrong.wants},
           {"notes", wrong.notes}};
  if (wrong.place) {
    place["lane"] = wrong.place->lane;
    place["step"] = wrong.place->step;
    place["step_text"] = wrong.step;
    place["round"] = wrong.place->round;
    place["repetition"] = wrong.place->repetition;
  }
  return out;
}

verify::CommShape ShapeOf(const verify::Algorithms& algorithms, const VerifyOptions& options, uint32_t ranks) {
  const auto& link = algorithms.profile().settings().link;
  const size_t chunk = options.chunk_bytes != 0 ? options.chunk_bytes : link.chunk_bytes;
  Result<std::vector<uint32_t>> hosts = verify::HostsOf(options.hosts, ranks);
  if (!hosts.ok()) throw CommandError(kExitUsage, "--hosts: " + hosts.status().message());
  return {ranks, static_cast<uint32_t>(chunk), link.lanes, link.slots, hosts.Take()};
}

// A row for every algorithm, number of ranks and collective that is asked for.
verify::SurveyPlan PlanOf(const verify::Algorithms& algorithms, const std::vector<verify::Algorithm>& chosen,
                          const VerifyOptions& options) {
  verify::SurveyPlan plan;
  plan.counts = options.counts;
  plan.effort = options.folds ? verify::Effort::kFold : verify::Effort::kExecute;
  plan.threads = options.threads;
  for (const verify::Algorithm& algorithm : chosen) {
    for (const uint32_t ranks : options.ranks) {
      for (const sl_op_kind_t kind : options.kinds) {
        if (kind == SL_OP_SEND && ranks == 1) continue;
        plan.tasks.push_back({&algorithm, ShapeOf(algorithms, options, ranks), kind});
      }
    }
  }
  return plan;
}

void WriteJson(const std::string& path, const std::vector<verify::SurveyRow>& rows, bool good) {
  json document = {{"starling", SL_VERSION}, {"good", good}, {"rows", json::array()}};
  for (const verify::SurveyRow& row : rows) document["rows"].push_back(JsonOf(row));
  std::ofstream file(path);
  file << document.dump(1) << "\n";
  file.close();
  if (!file) throw CommandError(kExitUsage, "--json " + path + ": cannot be written");
}

void PrintSummary(const std::vector<verify::SurveyRow>& rows, double seconds) {
  unsigned long long proved = 0, folded = 0, rotated = 0, launches = 0, wrong = 0;
  for (const verify::SurveyRow& row : rows) {
    proved += row.proved;
    folded += row.folded;
    rotated += row.rotated;
    launches += row.launches;
    wrong += row.failure ? 1 : 0;
  }
  printf(
      "%llu cases proved, %llu of them by folding, %llu as rotations of another root; %llu launch and have no plan; "
      "%llu wrong; %.2f s\n",
      proved, folded, rotated, launches, wrong, seconds);
}

void VerifyAll(const VerifyOptions& options) {
  PointAtModules();
  auto loaded =
      options.module.empty() ? verify::Algorithms::Load(options.profile) : verify::Algorithms::LoadWith(options.module);
  if (!loaded.ok()) Throw(loaded.status());
  const verify::Algorithms& algorithms = *loaded.value();
  const std::vector<verify::Algorithm> chosen = Chosen(algorithms, options);
  printf("%-14s %-15s %6s %9s %8s\n", "algorithm", "collective", "ranks", "cases", "seconds");
  const auto begin = std::chrono::steady_clock::now();
  // What an algorithm never claimed to serve is no news, unless it was asked for.
  const bool asked_for = options.kinds.size() == 1 && !options.algorithm.empty();
  const auto report = [&](const verify::SurveyRow& row) {
    if (OutcomeOf(row) != kNotServed || asked_for) PrintRow(row);
  };
  const std::vector<verify::SurveyRow> rows = RunSurveys(PlanOf(algorithms, chosen, options), report);
  PrintSummary(rows, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const auto wrong = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.failure.has_value(); });
  if (!options.json_file.empty()) WriteJson(options.json_file, rows, wrong == 0);
  if (wrong != 0) throw CommandError(kExitFailure, std::to_string(wrong) + " of the plans above are wrong");
}

}  // namespace

int CmdVerify(int argc, char** argv) {
  return RunCommand("verify", [&] { VerifyAll(ParseVerifyOptions(argc, argv)); });
}

}  // namespace sl::tools

// SPDX-License-Identifier: Apache-2.0
// `starling demo`: all nine collectives over local processes, every result checked, and the report of them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/bench_output.h"
#include "tools/starling/commands.h"
#include "tools/starling/launch_local.h"
#include "tools/starling/report_html.h"

namespace sl::tools {
namespace {

struct DemoOptions {
  int ranks = 4;
  std::string report = "build/report.html";
  std::string min_bytes = "8", max_bytes = "16M", factor = "4", type = "float";
  std::string profile, library;
  double budget_ms = 12;
  int repeat = 5;
};

DemoOptions ParseDemoOptions(int argc, char** argv) {
  DemoOptions options;
  CLI::App app("Runs all nine collectives over local processes, checks every result and draws a report.",
               "starling demo");
  app.add_option("--ranks", options.ranks, "local processes (4)")->check(CLI::Range(2, kMaxLocalProcesses));
  app.add_option("--report", options.report, "the page to write (build/report.html)");
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size (8)");
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size (16M)");
  app.add_option("-f,--stepfactor", options.factor, "factor between sizes (4)");
  app.add_option("-d,--datatype", options.type, "data type (float)");
  app.add_option("--repeat", options.repeat, "samples per point (5)")->check(CLI::Range(1, 1000));
  app.add_option("--budget-ms", options.budget_ms, "time for one sample (12)")->check(CLI::Range(0.1, 1e6));
  app.add_option("--profile", options.profile, "profile name or file");
  app.add_option("--library", options.library, "NCCL library to run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling demo --help lists every option)");
  }
  if (ParseDataTypes(options.type).size() != 1) throw CommandError(kExitUsage, "-d all: a report shows one data type");
  if (options.library.empty()) options.library = DefaultLibrary();
  if (access(options.library.c_str(), R_OK) != 0) {
    throw CommandError(kExitFailure,
                       "there is no library " + options.library + ": build it, or name one with --library");
  }
  return options;
}

// A file that goes away with the object.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "starling-demo-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    if (fd < 0) throw CommandError(kExitFailure, "cannot create " + pattern + "; is TMPDIR writable?");
    close(fd);
    path_ = pattern;
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int RunOne(const DemoOptions& options, Collective collective, Report& report) {
  ScratchFile json_file;
  char budget[32];
  snprintf(budget, sizeof budget, "%g", options.budget_ms);
  LaunchSpec spec;
  spec.command = {SelfPath(),
                  "bench",
                  Name(collective),
                  "-b",
                  options.min_bytes,
                  "-e",
                  options.max_bytes,
                  "-f",
                  options.factor,
                  "-d",
                  options.type,
                  "-n",
                  "0",
                  "-w",
                  "-1",
                  "-c",
                  "1",
                  "--repeat",
                  std::to_string(options.repeat),
                  "--budget-ms",
                  budget,
                  "--library",
                  options.library,
                  "-J",
                  json_file.path()};
  if (!options.profile.empty()) spec.command.insert(spec.command.end(), {"--profile", options.profile});
  spec.processes = spec.workers = options.ranks;
  const LaunchResult result = LaunchLocal(spec);
  if (result.exit_code && !result.explained) fprintf(stderr, "starling demo: %s\n", result.failure.c_str());
  std::ifstream file(json_file.path());
  nlohmann::json document = nlohmann::json::parse(file, nullptr, false);
  if (document.is_discarded()) document = {{"collective", Name(collective)}};
  AddDocument(report, document);
  if (report.panels.back().points.empty()) report.panels.back().failure = result.failure;
  return result.exit_code;
}

std::string Now() {
  char text[64];
  const time_t now = time(nullptr);
  tm parts;
  localtime_r(&now, &parts);
  strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

void WriteReport(const std::string& path, const Report& report) {
  std::ofstream file(path);
  file << ReportHtml(report);
  file.close();
  if (!file) throw CommandError(kExitFailure, "cannot write " + path + " (--report)");
}

int Run(int argc, char** argv) {
  const DemoOptions options = ParseDemoOptions(argc, argv);
  const std::filesystem::path parent = std::filesystem::path(options.report).parent_path();
  std::error_code ignored;  // what matters is whether the file can be written
  if (!parent.empty()) std::filesystem::create_directories(parent, ignored);
  CheckWritable(options.report, "--report", kExitFailure);
  Report report;
  report.cores = static_cast<int>(std::thread::hardware_concurrency());
  const char* profile = std::getenv("STARLING_PROFILE");
  report.profile = !options.profile.empty() ? options.profile : profile && *profile ? profile : "auto";
  report.date = Now();
  report.ranks = options.ranks;
  char host[64] = {};
  gethostname(host, sizeof host - 1);
  report.host = host;
  int exit_code = kExitGood;
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    printf("%s=== %s (%d of %d) ===\n", i ? "\n" : "", Name(collective), i + 1, kCollectiveCount);
    fflush(stdout);
    exit_code = std::max(exit_code, RunOne(options, collective, report));
  }
  WriteReport(options.report, report);
  printf("\n%zu measurements, %llu wrong elements; report: %s\n", report.Points(),
         static_cast<unsigned long long>(report.Wrong()), options.report.c_str());
  return exit_code;
}

}  // namespace

int CmdDemo(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const CommandError& error) {
    fprintf(error.exit_code() ? stderr : stdout, "%s%s\n", error.exit_code() ? "starling demo: " : "", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fprintf(stderr, "starling demo: %s\n", error.what());
    return kExitFailure;
  }
}

}  // namespace sl::tools

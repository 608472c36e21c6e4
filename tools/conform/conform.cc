// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/conform.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tools/conform/child.h"
#include "tools/conform/report.h"
#include "tools/conform/runner.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_output.h"
#include "tools/starling/launch_local.h"

namespace sl::conform {
namespace {

namespace fs = std::filesystem;
using tools::CommandError;
using tools::kExitFailure;
using tools::kExitGood;
using tools::kExitUsage;

struct Options {
  std::string module;
  std::vector<std::string> companions;
  std::vector<std::string> filters;
  std::string terms;
  std::string option_file;
  std::vector<std::string> settings;
  std::string json;
  std::string junit;
  uint64_t seed = 1;
  int jobs = 0;
  bool list = false;
  bool strict = false;
  bool full = false;
  bool verbose = false;
  // How the program calls itself.
  int describe_fd = -1;
  int report_fd = -1;
  std::string test;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Proves a module against the conformance suites of the interfaces it provides. Each test runs in a\n"
      "process of its own. Exit codes: 0 all is well or skipped, 1 a test failed, 2 bad usage.",
      "starling conform");
  app.add_option("module", options.module, "the module's file, MODULE.so")->required();
  app.add_flag("--list", options.list, "print the tests and what they check, run none");
  app.add_option("--filter", options.filters, "only tests of this name; * stands for anything; repeatable")
      ->allow_extra_args(false);
  app.add_option("--with", options.companions, "a module that may meet the module's requirements; repeatable")
      ->allow_extra_args(false);
  app.add_option("--exclusions", options.terms,
                 "TOML file: what the module is excused from, and why; companions to prefer");
  app.add_option("--options", options.option_file,
                 "TOML file of name = value lines: options of the module, as in a profile");
  app.add_option("--set", options.settings, "one option of the module, name=value; repeatable, goes before --options")
      ->allow_extra_args(false);
  app.add_flag("--strict", options.strict, "an expected failure that passes, or an idle exclusion, is a failure");
  app.add_option("--seed", options.seed, "of everything random; 1 without it");
  app.add_option("-j,--jobs", options.jobs, "tests at once; without it as many as there are processors");
  app.add_flag("--full", options.full, "every size and many seeds; takes minutes");
  app.add_flag("-v,--verbose", options.verbose, "a line for every test, not for failures only");
  app.add_option("--json", options.json, "write the results to this file as JSON");
  app.add_option("--junit", options.junit, "write the results to this file as JUnit XML");
  app.add_option(kDescribeOption, options.describe_fd)->group("");
  app.add_option(kReportOption, options.report_fd)->group("");
  app.add_option(kTestOption, options.test)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (starling conform --help says what there is)");
  }
  return options;
}

// Adds the modules shipped with the command, ../lib/starling/*.so: they meet requirements unless --with names others.
// The `preferred` ones come first.
void AddShippedModules(const std::vector<std::string>& preferred, std::vector<std::string>* companions) {
  std::vector<std::string> paths;
  std::error_code error;
  const fs::path folder = fs::path(tools::SelfPath()).parent_path().parent_path() / "lib" / "starling";
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    // Skeletons answer everything with a refusal: nobody's requirement is met by one.
    if (entry.path().extension() == ".so" && name.rfind("null-", 0) != 0) paths.push_back(entry.path().string());
  }
  const auto place = [&](const std::string& path) {
    return std::find(preferred.begin(), preferred.end(), fs::path(path).stem().string()) - preferred.begin();
  };
  std::sort(paths.begin(), paths.end(), [&](const std::string& a, const std::string& b) {
    return place(a) != place(b) ? place(a) < place(b) : a < b;
  });
  companions->insert(companions->end(), paths.begin(), paths.end());
}

std::string Absolute(const std::string& path, const char* what) {
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  if (error) throw CommandError(kExitUsage, fmt::format("{} {}: {}", what, path, error.message()));
  return absolute.string();
}

Assignment MakeAssignment(const Options& options) {
  Assignment assignment;
  assignment.module_path = Absolute(options.module, "module");
  for (const std::string& path : options.companions) assignment.companions.push_back(Absolute(path, "--with"));
  if (!options.option_file.empty()) assignment.options = ReadOptions(options.option_file);
  for (const std::string& setting : options.settings) assignment.options.push_back(ParseOption(setting));
  assignment.seed = options.seed;
  assignment.full = options.full;
  return assignment;
}

void WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) throw CommandError(kExitFailure, path + " cannot be written; is its folder there and writable?");
}

std::vector<Case> Chosen(const std::vector<Case>& all, const std::vector<std::string>& filters) {
  if (filters.empty()) return all;
  std::vector<Case> chosen;
  for (const Case& one : all) {
    if (std::any_of(filters.begin(), filters.end(), [&](const auto& filter) { return Matches(filter, one.name); })) {
      chosen.push_back(one);
    }
  }
  if (chosen.empty()) throw CommandError(kExitUsage, "no test is called that; --list prints all");
  return chosen;
}

int RunAll(const Options& options) {
  RunSettings settings{MakeAssignment(options), options.jobs};
  tools::CheckWritable(options.json, "--json", kExitFailure);
  tools::CheckWritable(options.junit, "--junit", kExitFailure);
  const Terms terms = options.terms.empty() ? Terms() : ReadTerms(options.terms);
  AddShippedModules(terms.with, &settings.assignment.companions);
  if (settings.jobs <= 0) settings.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  RunReport report;
  report.facts = ReadFacts(settings);
  report.path = settings.assignment.module_path;
  report.options = settings.assignment.options;
  for (const std::string& path : options.companions) report.companions.push_back(Absolute(path, "--with"));
  report.seed = options.seed;
  report.strict = options.strict;
  report.full = options.full;
  const std::vector<Case> all = CasesFor(report.facts);
  const std::vector<Case> chosen = Chosen(all, options.filters);
  if (options.list) {
    for (const Case& one : chosen) fmt::print("{:<60} {}\n", one.name, one.test.about);
    return kExitGood;
  }
  report.idle_exclusions = IdleExclusions(terms.exclusions, all);
  report.results = RunCases(settings, chosen, terms.exclusions, [&](const CaseResult& result) {
    fmt::print("{}", LinesOf(result, options.verbose));
    std::fflush(stdout);
  });
  fmt::print("{}", SummaryOf(report));
  WriteFile(options.json, ToJson(report));
  WriteFile(options.junit, ToJUnit(report));
  return report.IsGood() ? kExitGood : kExitFailure;
}

}  // namespace

int Conform(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  if (options.describe_fd >= 0) return DescribeModule(MakeAssignment(options), options.describe_fd);
  if (options.report_fd >= 0) return RunOne(MakeAssignment(options), options.test, options.report_fd);
  return RunAll(options);
}

}  // namespace sl::conform

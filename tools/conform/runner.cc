// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/runner.h"

#include <poll.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/conform/child.h"
#include "tools/conform/process.h"
#include "tools/starling/bench_error.h"

namespace sl::conform {
namespace {

using nlohmann::json;

constexpr uint64_t kFullFactor = 15;  // how much longer a test of a full run may take, also where much else runs
#if defined(SL_SANITIZED)
constexpr uint64_t kMsPerSecond = 4000;
#else
constexpr uint64_t kMsPerSecond = 1000;
#endif
constexpr uint64_t kDescribeMs = 10'000;

std::vector<std::string> CommonArguments(const Assignment& assignment) {
  std::vector<std::string> words = {"conform", assignment.module_path, "--seed", std::to_string(assignment.seed)};
  if (assignment.full) words.emplace_back("--full");
  for (const auto& [name, text] : assignment.options) {
    words.emplace_back("--set");
    words.push_back(fmt::format("{}={}", name, text));
  }
  for (const std::string& companion : assignment.companions) {
    words.emplace_back("--with");
    words.push_back(companion);
  }
  return words;
}

// A wait that ends when the child has written or its time is over; joined deaths are seen at the next look.
void WaitFor(const std::vector<const Process*>& processes) {
  std::vector<pollfd> wanted;
  uint64_t until = NowMs() + 50;
  for (const Process* process : processes) {
    until = std::min(until, process->deadline_ms());
    for (const int fd : {process->report_fd(), process->output_fd()}) {
      if (fd >= 0) wanted.push_back({fd, POLLIN, 0});
    }
  }
  const uint64_t now = NowMs();
  const int most = wanted.empty() ? 2 : static_cast<int>(until > now ? until - now : 0);
  poll(wanted.data(), wanted.size(), most);
}

CaseResult ResultOf(const Case& one, const Exclusion* exclusion, const Process& process) {
  CaseResult result{one.name, one.test.about, Verdict::kFailed, {}, process.output(), process.elapsed_ms()};
  const json report = json::parse(process.report(), nullptr, false);
  if (report.is_object()) {
    result.messages = report.value("messages", std::vector<std::string>());
    const std::string outcome = report.value("outcome", "failed");
    if (outcome == "passed") result.verdict = Verdict::kPassed;
    if (outcome == "skipped") result.verdict = Verdict::kSkipped;
  }
  std::string trouble = process.trouble();
  if (trouble.empty() && !report.is_object()) trouble = "ended without a report";
  if (!trouble.empty()) {
    result.verdict = Verdict::kFailed;
    result.messages.push_back(trouble);
  }
  if (exclusion != nullptr && result.verdict == Verdict::kFailed) result.verdict = Verdict::kFailedAsExpected;
  if (exclusion != nullptr && result.verdict == Verdict::kPassed) {
    result.verdict = Verdict::kPassedUnexpectedly;
    result.messages = {"is expected to fail, and passes: " + exclusion->reason};
  }
  return result;
}

// Keeps up to `jobs` tests running.
class Pool {
 public:
  Pool(const RunSettings& settings, const std::vector<Case>& cases, const std::vector<Exclusion>& exclusions,
       const std::function<void(const CaseResult&)>& on_result)
      : settings_(settings), cases_(cases), exclusions_(exclusions), on_result_(on_result), results_(cases.size()) {}

  std::vector<CaseResult> Run() {
    for (size_t next = 0; next < cases_.size() || !running_.empty();) {
      while (next < cases_.size() && running_.size() < static_cast<size_t>(settings_.jobs)) Start(next++);
      std::vector<const Process*> processes;
      for (const Running& one : running_) processes.push_back(one.process.get());
      if (!processes.empty()) WaitFor(processes);
      Collect();
    }
    return std::move(results_);
  }

 private:
  struct Running {
    size_t index;
    std::unique_ptr<Process> process;
  };

  void Start(size_t index) {
    const Case& one = cases_[index];
    const Exclusion* exclusion = FindExclusion(exclusions_, one.name);
    const bool full = settings_.assignment.full;
    if (exclusion != nullptr && exclusion->kind == ExclusionKind::kUnsupported) {
      return Finish(index, {one.name, one.test.about, Verdict::kExcluded, {exclusion->reason}, "", 0});
    }
    if (one.test.full_only && !full) {
      return Finish(index, {one.name, one.test.about, Verdict::kSkipped, {"runs with --full only"}, "", 0});
    }
    std::vector<std::string> words = CommonArguments(settings_.assignment);
    words.insert(words.end(), {kTestOption, one.name, std::string(kReportOption) + "="});
    const uint64_t limit_ms = uint64_t{one.test.seconds} * kMsPerSecond * (full ? kFullFactor : 1);
    running_.push_back({index, std::make_unique<Process>(words, limit_ms)});
  }

  void Collect() {
    for (size_t i = 0; i < running_.size();) {
      if (!running_[i].process->Poll()) {
        ++i;
        continue;
      }
      const size_t index = running_[i].index;
      const Exclusion* exclusion = FindExclusion(exclusions_, cases_[index].name);
      Finish(index, ResultOf(cases_[index], exclusion, *running_[i].process));
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void Finish(size_t index, CaseResult result) {
    results_[index] = std::move(result);
    on_result_(results_[index]);
  }

  const RunSettings& settings_;
  const std::vector<Case>& cases_;
  const std::vector<Exclusion>& exclusions_;
  const std::function<void(const CaseResult&)>& on_result_;
  std::vector<CaseResult> results_;
  std::vector<Running> running_;
};

}  // namespace

ModuleFacts ReadFacts(const RunSettings& settings) {
  std::vector<std::string> words = CommonArguments(settings.assignment);
  words.push_back(std::string(kDescribeOption) + "=");
  Process process(words, kDescribeMs);
  while (!process.Poll()) WaitFor({&process});
  const std::string& path = settings.assignment.module_path;
  const json report = json::parse(process.report(), nullptr, false);
  if (!process.trouble().empty() || !report.is_object()) {
    throw tools::CommandError(tools::kExitFailure, path + ": loading it and asking what it is " + process.trouble() +
                                                       "\n" + process.output());
  }
  if (report.contains("usage")) throw tools::CommandError(tools::kExitUsage, report["usage"].get<std::string>());
  if (report.contains("failure")) {
    std::string text;
    for (const auto& line : report["failure"]) text += line.get<std::string>() + "\n";
    throw tools::CommandError(tools::kExitFailure, text);
  }
  ModuleFacts facts{report["name"], report["version"], {}};
  for (const json& one : report["provides"]) facts.provides.push_back({one["id"], one["name"]});
  return facts;
}

std::vector<CaseResult> RunCases(const RunSettings& settings, const std::vector<Case>& cases,
                                 const std::vector<Exclusion>& exclusions,
                                 const std::function<void(const CaseResult&)>& on_result) {
  return Pool(settings, cases, exclusions, on_result).Run();
}

}  // namespace sl::conform

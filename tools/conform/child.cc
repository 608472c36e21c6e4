// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tests/conformance/kit/calls.h"
#include "tests/conformance/kit/module.h"
#include "tools/conform/catalog.h"
#include "tools/starling/bench_error.h"

namespace sl::conform {
namespace {

using nlohmann::json;

// The runner's death is the test's; a crash is a finding, not a core file.
void BecomeChild() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

int Report(int fd, const json& report) {
  const std::string text = report.dump(-1, ' ', false, json::error_handler_t::replace);
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return tools::kExitFailure;
    done += static_cast<size_t>(wrote);
  }
  std::fflush(nullptr);
  return tools::kExitGood;
}

ModuleFacts FactsOf(const sl_module_t& table) {
  ModuleFacts facts;
  facts.name = table.name != nullptr ? table.name : "";
  facts.version = table.version != nullptr ? table.version : "";
  for (uint32_t i = 0; table.provides != nullptr && i < table.provide_count; ++i) {
    const sl_provide_t* provide = table.provides[i];
    if (provide == nullptr || provide->id == nullptr || provide->name == nullptr || provide->ops == nullptr) continue;
    facts.provides.push_back({provide->id, provide->name});
  }
  return facts;
}

const char* NameOf(Outcome outcome) {
  if (outcome == Outcome::kPassed) return "passed";
  return outcome == Outcome::kFailed ? "failed" : "skipped";
}

}  // namespace

int DescribeModule(const Assignment& assignment, int report_fd) {
  BecomeChild();
  SayWhereItEnds(report_fd);
  Trial trial(assignment);
  try {
    const LoadedModule module(trial, assignment.module_path);
    const sl_module_t& table = module.table();
    // Nothing behind these is read of a table that is no table; the tests say what is wrong with it.
    constexpr size_t kBytes = offsetof(sl_module_t, close) + sizeof(table.close);
    if (table.magic != SL_MODULE_MAGIC || table.struct_size < kBytes) {
      return Report(report_fd, {{"name", ""}, {"version", ""}, {"provides", json::array()}});
    }
    if (table.option_count == 0 || table.options != nullptr) {
      const std::string wrong = OptionValues(table).Apply(assignment.options);
      if (!wrong.empty()) return Report(report_fd, {{"usage", wrong}});
    }
    const ModuleFacts facts = FactsOf(table);
    json report = {{"name", facts.name}, {"version", facts.version}, {"provides", json::array()}};
    for (const Provided& one : facts.provides) report["provides"].push_back({{"id", one.id}, {"name", one.name}});
    return Report(report_fd, report);
  } catch (const TrialEnd&) {
    return Report(report_fd, {{"failure", trial.messages()}});
  }
}

int RunOne(const Assignment& assignment, const std::string& case_name, int report_fd) {
  BecomeChild();
  SayWhereItEnds(report_fd);
  // The case is found by its own name: the module is not asked again, so that every test begins with a clean process.
  const size_t first = case_name.find('/');
  const size_t last = case_name.rfind('/');
  const std::string folder = case_name.substr(0, first);
  Assignment with_provider = assignment;
  if (last != first) with_provider.provider = case_name.substr(first + 1, last - first - 1);
  Trial trial(with_provider);
  try {
    const Test* found = nullptr;
    const std::vector<NamedSuite> suites = AllSuites();
    for (const NamedSuite& named : suites) {
      if (named.folder != folder) continue;
      for (const Test& test : named.suite.tests) {
        if (test.name == case_name.substr(last + 1)) found = &test;
      }
    }
    trial.Require(found != nullptr, "there is no test {}", case_name);
    found->run(trial);
  } catch (const TrialEnd&) {  // noted already
  } catch (const std::exception& error) {
    trial.Expect(false, "an exception left the test: {}", error.what());
  }
  ExpectNothingThrown(trial);
  return Report(report_fd, {{"outcome", NameOf(trial.outcome())}, {"messages", trial.messages()}});
}

}  // namespace sl::conform

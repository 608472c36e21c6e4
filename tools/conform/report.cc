// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sl::conform {
namespace {

using nlohmann::json;

bool IsFailure(Verdict verdict, bool strict) {
  return verdict == Verdict::kFailed || (strict && verdict == Verdict::kPassedUnexpectedly);
}

std::string Indent(const std::string& text) {
  std::string out = "      ";
  for (const char letter : text) {
    out += letter;
    if (letter == '\n') out += "      ";
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out.empty() ? out : out + "\n";
}

// XML 1.0 has no place for most control characters, escaped or not.
std::string Escape(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(letter) < 0x20 && letter != '\n' && letter != '\t' ? '?' : letter;
    }
  }
  return out;
}

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

}  // namespace

size_t RunReport::Count(Verdict verdict) const {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(),
                                           [&](const CaseResult& result) { return result.verdict == verdict; }));
}

bool RunReport::IsGood() const {
  if (strict && !idle_exclusions.empty()) return false;
  return std::none_of(results.begin(), results.end(),
                      [&](const CaseResult& result) { return IsFailure(result.verdict, strict); });
}

const char* NameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return "passed";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kSkipped:
      return "skipped";
    case Verdict::kExcluded:
      return "excluded";
    case Verdict::kFailedAsExpected:
      return "failed as expected";
    case Verdict::kPassedUnexpectedly:
      return "passed unexpectedly";
  }
  return "";
}

std::string LinesOf(const CaseResult& result, bool verbose) {
  const bool is_bad = result.verdict == Verdict::kFailed || result.verdict == Verdict::kPassedUnexpectedly;
  if (!is_bad && !verbose) return "";
  std::string lines = fmt::format("{:<19} {} ({} ms)\n", NameOf(result.verdict), result.name, result.milliseconds);
  if (is_bad && !result.about.empty()) lines += Indent("checks: " + result.about);
  for (const std::string& message : result.messages) lines += Indent(message);
  if (is_bad && !result.output.empty()) lines += Indent("it printed:\n" + result.output);
  return lines;
}

std::string SummaryOf(const RunReport& report) {
  std::string text;
  for (const std::string& pattern : report.idle_exclusions) {
    text += fmt::format("the exclusion \"{}\" names no test; take it out\n", pattern);
  }
  for (const Provided& provided : Untested(report.facts)) {
    text += fmt::format("not tested: {} {}, for which this release has no suite\n", provided.id, provided.name);
  }
  text += fmt::format("{} {}: {} tests, {} passed, {} failed", report.facts.name, report.facts.version,
                      report.results.size(), report.Count(Verdict::kPassed), report.Count(Verdict::kFailed));
  for (const Verdict verdict :
       {Verdict::kSkipped, Verdict::kExcluded, Verdict::kFailedAsExpected, Verdict::kPassedUnexpectedly}) {
    if (const size_t count = report.Count(verdict); count > 0) text += fmt::format(", {} {}", count, NameOf(verdict));
  }
  text += fmt::format("; seed {}\n", report.seed);
  std::string filters;
  for (const CaseResult& result : report.results) {
    if (result.verdict == Verdict::kFailed) filters += fmt::format(" --filter '{}'", result.name);
  }
  if (!filters.empty()) {
    for (const auto& [name, value] : report.options) filters += fmt::format(" --set '{}={}'", name, value);
    for (const std::string& path : report.companions) filters += fmt::format(" --with '{}'", path);
    text += fmt::format("again: starling conform {}{} --seed {}{}\n", report.path, filters, report.seed,
                        report.full ? " --full" : "");
  }
  return text;
}

std::string ToJson(const RunReport& report) {
  json document = {
      {"module", {{"name", report.facts.name}, {"version", report.facts.version}, {"path", report.path}}},
      {"options", json::object()},
      {"seed", report.seed},
      {"strict", report.strict},
      {"full", report.full},
      {"good", report.IsGood()},
      {"idle_exclusions", report.idle_exclusions},
      {"untested", json::array()},
      {"tests", json::array()},
  };
  for (const auto& [name, value] : report.options) document["options"][name] = value;
  for (const Provided& provided : Untested(report.facts)) {
    document["untested"].push_back({{"id", provided.id}, {"name", provided.name}});
  }
  for (const Verdict verdict : {Verdict::kPassed, Verdict::kFailed, Verdict::kSkipped, Verdict::kExcluded,
                                Verdict::kFailedAsExpected, Verdict::kPassedUnexpectedly}) {
    document["counts"][NameOf(verdict)] = report.Count(verdict);
  }
  for (const CaseResult& result : report.results) {
    document["tests"].push_back({{"name", result.name},
                                 {"about", result.about},
                                 {"verdict", NameOf(result.verdict)},
                                 {"messages", result.messages},
                                 {"output", result.output},
                                 {"milliseconds", result.milliseconds}});
  }
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string ToJUnit(const RunReport& report) {
  size_t failures = 0;
  size_t skipped = 0;
  std::string body;
  uint64_t total_ms = 0;
  for (const CaseResult& result : report.results) {
    total_ms += result.milliseconds;
    const size_t cut = result.name.rfind('/');
    body += fmt::format("  <testcase classname=\"{}.{}\" name=\"{}\" time=\"{:.3f}\"", Escape(report.facts.name),
                        Escape(result.name.substr(0, cut)), Escape(result.name.substr(cut + 1)),
                        static_cast<double>(result.milliseconds) / 1000);
    const std::string words = Escape(Join(result.messages));
    if (IsFailure(result.verdict, report.strict)) {
      ++failures;
      body += fmt::format(">\n    <failure message=\"{}\">{}</failure>\n  </testcase>\n", NameOf(result.verdict),
                          words + "\n" + Escape(result.output));
    } else if (result.verdict == Verdict::kPassed || result.verdict == Verdict::kPassedUnexpectedly) {
      body += "/>\n";
    } else {
      ++skipped;
      body += fmt::format(">\n    <skipped message=\"{}: {}\"/>\n  </testcase>\n", NameOf(result.verdict), words);
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"conform.{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuite>\n",
      Escape(report.facts.name), report.results.size(), failures, skipped, static_cast<double>(total_ms) / 1000, body);
}

}  // namespace sl::conform

// SPDX-License-Identifier: Apache-2.0
// `starling modules`: what lies on the search path, what of it is used, and why the rest is not.
#include <algorithm>
#include <cctype>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/starling/bench_error.h"
#include "tools/starling/cmd_module_tables.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/commands.h"

namespace sl::tools {
namespace {

using nlohmann::json;

std::string Text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string DefaultOf(const json& option) {
  const std::string text = Text(option["default"]);
  return text.empty() ? "\"\"" : text;
}

// "sl.algorithm/1 ring, sl.algorithm/1 tree"
std::string Provides(const json& module) {
  std::string out;
  for (const json& provide : module["provides"]) {
    out += (out.empty() ? "" : ", ") + Text(provide["id"]) + " " + Text(provide["name"]);
    if (provide["layer"].get<bool>()) out += " (layer)";
  }
  return out;
}

void PrintTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) printf("%-*s  ", static_cast<int>(widths[i]), row[i].c_str());
    printf("%s\n", row.back().c_str());
  }
}

void PrintModules(const json& document) {
  std::vector<std::vector<std::string>> rows = {{"module", "version", "state", "sha256", "provides", "file"}};
  for (const json& module : document["modules"]) {
    rows.push_back({Text(module["name"]), Text(module["version"]), Text(module["state"]),
                    Text(module["sha256"]).substr(0, 12), Provides(module), Text(module["path"])});
  }
  if (rows.size() > 1) PrintTable(rows);
  for (const json& module : document["modules"]) {
    if (!Text(module["reason"]).empty())
      printf("%s: %s\n", Text(module["name"]).c_str(), Text(module["reason"]).c_str());
  }
  for (const json& refused : document["refused"]) printf("%s\n", Text(refused["reason"]).c_str());
  for (const json& problem : document["problems"]) printf("%s\n", Text(problem).c_str());
  if (rows.size() == 1) {
    for (const json& folder : document["folders"]) printf("no module in %s\n", Text(folder).c_str());
  }
}

void PrintDescriptions(const json& document) {
  for (const json& module : document["modules"]) {
    const bool own_name = module["name"] == module["module"];
    printf("\n%s %s%s, %s: %s\n", Text(module["name"]).c_str(), own_name ? "" : (Text(module["module"]) + " ").c_str(),
           Text(module["version"]).c_str(), Text(module["vendor"]).c_str(), Text(module["summary"]).c_str());
    printf("  file %s\n  sha256 %s\n", Text(module["path"]).c_str(), Text(module["sha256"]).c_str());
    printf("  container %s, drafts of build %s\n", Text(module["container"]).c_str(), Text(module["build_id"]).c_str());
    for (const json& provide : module["provides"]) {
      printf("  provides %s %s, revisions %s to %s\n", Text(provide["id"]).c_str(), Text(provide["name"]).c_str(),
             Text(provide["revision_min"]).c_str(), Text(provide["revision"]).c_str());
    }
    for (const json& need : module["requires"]) {
      printf("  needs %s, revisions %s to %s%s\n", Text(need["id"]).c_str(), Text(need["revision_min"]).c_str(),
             Text(need["revision_max"]).c_str(), need["optional"].get<bool>() ? ", if there is one" : "");
    }
    for (const json& option : module["options"]) {
      printf("  %s (%s; default %s): %s\n", Text(option["name"]).c_str(), Text(option["range"]).c_str(),
             DefaultOf(option).c_str(), Text(option["doc"]).c_str());
      if (option.contains("value") && Text(option["origin"]) != "default") {
        printf("    is %s, from %s\n", Text(option["value"]).c_str(), Text(option["place"]).c_str());
      }
    }
  }
}

}  // namespace

std::string ModulesJson(const std::string& profile) {
  return FetchText([&](char* text, uint64_t capacity, uint64_t* out_needed) {
    return Runtime().modules_text(profile.empty() ? nullptr : profile.c_str(), text, capacity, out_needed);
  });
}

std::string OptionsMarkdown(const nlohmann::json& module) {
  std::string summary = Text(module["summary"]);
  if (!summary.empty()) summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  std::string page = "\n### " + Text(module["name"]) + "\n\n" + summary + ". Provides " + Provides(module) + ".\n\n";
  if (module["options"].empty()) return page + "It has no options.\n";
  page += "| option | default | type | meaning |\n|---|---|---|---|\n";
  for (const json& option : module["options"]) {
    page += "| `" + Text(option["name"]) + "` | `" + DefaultOf(option) + "` | " + Text(option["range"]) + " | " +
            Text(option["doc"]) + " |\n";
  }
  return page;
}

int CmdModules(int argc, char** argv) {
  return RunCommand("modules", [&] {
    bool describe = false;
    bool as_json = false;
    std::string profile;
    CLI::App app("Lists the modules on the search path and what the profile makes of them.", "starling modules");
    app.add_flag("--describe", describe, "with what each needs and its options");
    app.add_flag("--json", as_json, "as JSON");
    app.add_option("--profile", profile, "profile name or file; without it: the one in effect");
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      throw CommandError(kExitGood, app.help());
    } catch (const CLI::ParseError& error) {
      throw CommandError(kExitUsage, std::string(error.what()) + " (starling modules --help says what there is)");
    }
    const std::string text = ModulesJson(profile);
    if (as_json) {
      printf("%s", text.c_str());
      return;
    }
    const json document = json::parse(text);
    PrintModules(document);
    if (describe) PrintDescriptions(document);
  });
}

}  // namespace sl::tools

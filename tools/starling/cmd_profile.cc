// SPDX-License-Identifier: Apache-2.0
// `starling profile`: is a profile right, what does it amount to, and what could it say.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/starling/bench_error.h"
#include "tools/starling/cmd_module_tables.h"
#include "tools/starling/cmd_runtime.h"
#include "tools/starling/commands.h"

namespace sl::tools {
namespace {

std::string EffectiveProfile(const std::string& name) {
  const char* profile = name.empty() ? nullptr : name.c_str();
  return FetchText([&](char* text, uint64_t capacity, uint64_t* out_needed) {
    return Runtime().profile_text(profile, text, capacity, out_needed);
  });
}

void Check(const std::string& name) {
  const std::string text = EffectiveProfile(name);
  // Modules have the last word about their options.
  const nlohmann::json modules = nlohmann::json::parse(ModulesJson(name));
  std::string problems;
  for (const nlohmann::json& problem : modules["problems"]) problems += problem.get<std::string>() + "\n";
  if (!problems.empty()) throw CommandError(kExitUsage, problems.substr(0, problems.size() - 1));
  // The first line says which profile it is; warnings stand at the end as comments.
  printf("%s is good\n", name.empty() ? "the profile in effect" : name.c_str());
  for (size_t at = text.find("# warning: "); at != std::string::npos; at = text.find("# warning: ", at + 1)) {
    printf("%s\n", text.substr(at + 2, text.find('\n', at) - at - 2).c_str());
  }
}

void Reference() {
  const nlohmann::json document = nlohmann::json::parse(ModulesJson(""));
  printf("%s\n## Options of modules\n", document["kernel_keys"].get<std::string>().c_str());
  for (const nlohmann::json& module : document["modules"]) printf("%s", OptionsMarkdown(module).c_str());
}

}  // namespace

int CmdProfile(int argc, char** argv) {
  return RunCommand("profile", [&] {
    CLI::App app("Checks and prints profiles.", "starling profile");
    app.require_subcommand(1);
    std::string name;
    CLI::App* check = app.add_subcommand("check", "say what is wrong: file:line:column of every error, exit code 2");
    check->add_option("profile", name, "name or file; without it: the one in effect");
    CLI::App* show = app.add_subcommand("show", "print the effective set, each value with where it comes from");
    show->add_option("profile", name, "name or file; without it: the one in effect");
    CLI::App* reference = app.add_subcommand("reference", "print the reference page, Markdown");
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      throw CommandError(kExitGood, app.help("", CLI::AppFormatMode::All));
    } catch (const CLI::ParseError& error) {
      throw CommandError(kExitUsage, std::string(error.what()) + " (starling profile --help says what there is)");
    }
    if (check->parsed()) Check(name);
    if (show->parsed()) printf("%s", EffectiveProfile(name).c_str());
    if (reference->parsed()) Reference();
  });
}

}  // namespace sl::tools

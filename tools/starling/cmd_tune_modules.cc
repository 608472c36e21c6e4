// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/cmd_tune_modules.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sl_algorithm.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/cmd_module_tables.h"
#include "tools/starling/launch_local.h"

namespace sl::tools {
namespace {

// The algorithms that the profile `path` puts to use.
TunedModules FindModulesOf(const std::string& path) {
  TunedModules found;
  std::set<std::string> names;
  const nlohmann::json document = nlohmann::json::parse(ModulesJson(path));
  for (const nlohmann::json& problem : document["problems"]) throw CommandError(kExitUsage, problem.get<std::string>());
  for (const nlohmann::json& module : document["modules"]) {
    if (module["state"] != "in use") continue;
    bool serves = false;
    for (const nlohmann::json& provide : module["provides"]) {
      if (provide["id"] != SL_ALGORITHM_ID || provide["layer"].get<bool>()) continue;
      names.insert(provide["name"].get<std::string>());
      serves = true;
    }
    if (serves)
      found.versions.push_back(module["name"].get<std::string>() + " " + module["version"].get<std::string>());
  }
  found.algorithms.assign(names.begin(), names.end());
  if (found.algorithms.empty())
    throw CommandError(kExitFailure, "the profile lets in no algorithm: nothing to measure");
  return found;
}

// What `starling explain` lists: a process of its own, since it makes a communicator.
std::set<std::string> NamesOn(const std::string& path, const std::string& device, int ranks) {
  const std::string command = "'" + SelfPath() + "' explain all_reduce 64 --device " + device + " --ranks " +
                              std::to_string(ranks) + " --profile '" + path + "' 2>/dev/null";
  std::set<std::string> names;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw CommandError(kExitFailure, "cannot run starling explain");
  char line[4096];
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    std::istringstream words(std::string(line).substr(1));  // behind the mark of the chosen one
    std::string name;
    if (words >> name) names.insert(name);
  }
  pclose(pipe);
  return names;
}

}  // namespace

TunedModules FindModules(const std::string& text, const std::string& file, const std::string& device, int ranks,
                         Scratch* scratch) {
  const std::string path = scratch->Add("base.toml", text);
  try {
    TunedModules found = FindModulesOf(path);
    const std::set<std::string> there = NamesOn(path, device, ranks);
    std::erase_if(found.algorithms, [&](const std::string& name) { return there.count(name) == 0; });
    if (found.algorithms.empty()) {
      throw CommandError(kExitFailure,
                         "no algorithm of the profile is for such ranks: nothing to measure; see starling "
                         "explain all_reduce 64 --device " +
                             device);
    }
    return found;
  } catch (const CommandError& error) {
    std::string what = error.what();  // speaks of the copy
    for (size_t at = what.find(path); at != std::string::npos; at = what.find(path))
      what.replace(at, path.size(), file);
    throw CommandError(error.exit_code(), what);
  }
}

std::string OnlyProfile(const std::string& base, const std::vector<std::string>& algorithms,
                        const std::string& algorithm) {
  std::string others;
  for (const std::string& other : algorithms) {
    if (other != algorithm) others += (others.empty() ? "\"" : ", \"") + other + "\"";
  }
  return others.empty() ? base : base + "\n[[select]]\nforbid = [" + others + "]\n";
}

}  // namespace sl::tools

// SPDX-License-Identifier: Apache-2.0
#include "tests/conform/kit_run.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace sl::conform {

std::string BrokenModule(const std::string& kind) { return std::string(getenv("SL_BROKEN_DIR")) + "/" + kind + ".so"; }

KitRun RunKit(const std::string& module_path, const std::vector<std::string>& arguments) {
  char report[] = "/tmp/sl-conform-XXXXXX";
  close(mkstemp(report));
  std::string command =
      std::string(getenv("SL_TEST_BUILD_DIR")) + "/bin/starling conform '" + module_path + "' --json " + report;
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  KitRun run;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) run.text.append(buffer, got);
  const int status = pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(report);
  run.json = nlohmann::json::parse(file, nullptr, false);
  if (run.json.is_discarded()) run.json = nullptr;
  unlink(report);
  return run;
}

nlohmann::json EntryOf(const KitRun& run, const std::string& test) {
  if (run.json.is_null()) return nullptr;
  for (const auto& entry : run.json["tests"]) {
    if (entry["name"] == test) return entry;
  }
  return nullptr;
}

}  // namespace sl::conform

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

std::string NameOfBroken(const ::testing::TestParamInfo<Broken>& info) {
  std::string name = std::string(info.param.kind) + "_" + info.param.test;
  for (char& letter : name) letter = letter == '.' ? '_' : letter;
  return name;
}

void ExpectCaught(const Broken& broken, const std::string& prefix, const std::vector<std::string>& more) {
  const std::string test = prefix + "/" + broken.test;
  std::vector<std::string> arguments = {"--filter", test};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const KitRun run = RunKit(BrokenModule(broken.kind), arguments);
  EXPECT_EQ(1, run.exit_code) << run.text;
  const nlohmann::json entry = EntryOf(run, test);
  ASSERT_FALSE(entry.is_null()) << run.text;
  EXPECT_EQ("failed", entry["verdict"]);
  EXPECT_NE(entry["messages"].dump().find(broken.words), std::string::npos) << entry["messages"].dump();
}

void ExpectSound(const std::string& kind, const std::string& filter, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--strict", "--filter", filter};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const KitRun run = RunKit(BrokenModule(kind), arguments);
  EXPECT_EQ(0, run.exit_code) << run.text;
  ASSERT_FALSE(run.json.is_null());
  EXPECT_GT(run.json["counts"]["passed"], 0);
}

}  // namespace sl::conform

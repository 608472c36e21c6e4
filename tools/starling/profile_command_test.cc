// SPDX-License-Identifier: Apache-2.0
// `starling profile`, `modules` and `explain` as programs: what they print and how they exit.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace sl::tools {
namespace {

struct Outcome {
  int exit_code;
  std::string text;  // both streams
};

Outcome Starling(const std::string& arguments) {
  const std::string command =
      std::string("timeout 50 ") + std::getenv("SL_TEST_BUILD_DIR") + "/bin/starling " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> chunk;
  while (size_t got = fread(chunk.data(), 1, chunk.size(), pipe)) outcome.text.append(chunk.data(), got);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class ProfileCommand : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // A profile file of this text below its first line.
  const std::string& File(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / ("starling-" + std::to_string(getpid()) + ".toml")).string();
    std::ofstream(path_) << "profile_version = 1\n" << text;
    return path_;
  }

  std::string path_;
};

TEST_F(ProfileCommand, CheckAcceptsTheDefault) {
  const Outcome outcome = Starling("profile check auto");
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find("auto is good"), std::string::npos) << outcome.text;
}

TEST_F(ProfileCommand, CheckAsksTheModule) {
  const std::string file = File("[modules.transport-tcp.options]\nlisten_ports = \"abc\"\n");
  const Outcome outcome = Starling("profile check " + file);
  EXPECT_EQ(2, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find("transport-tcp: listen_ports: abc is no range of ports"), std::string::npos)
      << outcome.text;
  EXPECT_EQ(outcome.text.find("is good"), std::string::npos) << outcome.text;
}

TEST_F(ProfileCommand, BadInputIsExitTwoWithItsPlace) {
  const struct {
    const char* text;
    const char* words;
  } kCases[] = {
      {"[comm\n", ":2:"},
      {"[comm]\noperation_timout_ms = 5\n",
       ":3:1: unknown key comm.operation_timout_ms; nearest is operation_timeout_ms"},
      {"[link]\nslots = \"many\"\n", ":3:9: link.slots must be an integer, not a string"},
      {"[link]\nslots = 0\n", ":3:9: link.slots is 0, but must be 2 to 1024"},
      {"enable = [\"no-such-module\"]\n", ":2:11: there is no module no-such-module in "},
  };
  for (const auto& one : kCases) {
    const Outcome outcome = Starling("profile check " + File(one.text));
    EXPECT_EQ(2, outcome.exit_code) << outcome.text;
    EXPECT_EQ(0u, outcome.text.find(path_ + ":")) << outcome.text;
    EXPECT_NE(outcome.text.find(one.words), std::string::npos) << outcome.text;
  }
}

TEST_F(ProfileCommand, MissingProfileAndBadUsageAreExitTwo) {
  for (const char* arguments :
       {"profile", "profile check no-such-profile", "profile mend", "modules --color",
        "modules --profile no-such-profile", "explain", "explain all_reduce 8 --ranks 0", "explain all_reduce soon",
        "bench all_reduce --profile no-such-profile", "bench all_reduce --ranks 2 --profile no-such-profile"}) {
    EXPECT_EQ(2, Starling(arguments).exit_code) << arguments;
  }
}

TEST_F(ProfileCommand, ShowPrintsWhatReadsBack) {
  const Outcome shown = Starling("profile show " + File("[link]\nlanes = 3\n"));
  EXPECT_EQ(0, shown.exit_code) << shown.text;
  EXPECT_NE(shown.text.find("lanes = 3  # " + path_ + ":3:9\n"), std::string::npos) << shown.text;
  std::ofstream(path_) << shown.text;
  EXPECT_EQ(0, Starling("profile check " + path_).exit_code);
}

TEST_F(ProfileCommand, EveryExampleSaysForWhomAndIsGood) {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(std::getenv("SL_TEST_SOURCE_DIR")) + "/configs")) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream file(entry.path());
    for (const char* start : {"# For whom: ", "# Measured on: ", "# Changed: "}) {
      std::string line;
      std::getline(file, line);
      EXPECT_EQ(0u, line.find(start)) << entry.path();
    }
    const Outcome outcome = Starling("profile check " + entry.path().string());
    const bool incomplete = outcome.text.find("there is no module ") != std::string::npos;  // built without it
    EXPECT_TRUE(outcome.exit_code == 0 || incomplete) << outcome.text;
  }
}

TEST_F(ProfileCommand, ModulesListsAndDescribes) {
  const Outcome as_json = Starling("modules --json");
  ASSERT_EQ(0, as_json.exit_code) << as_json.text;
  const nlohmann::json document = nlohmann::json::parse(as_json.text);
  const Outcome outcome = Starling("modules --describe");
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  for (const nlohmann::json& module : document["modules"]) {
    EXPECT_EQ(64u, module["sha256"].get<std::string>().size());
    EXPECT_NE(outcome.text.find(module["name"].get<std::string>()), std::string::npos);
    EXPECT_NE(outcome.text.find("  sha256 " + module["sha256"].get<std::string>() + "\n"), std::string::npos);
    for (const nlohmann::json& option : module["options"]) {
      EXPECT_NE(outcome.text.find("  " + option["name"].get<std::string>() + " ("), std::string::npos);
    }
  }
}

// What tuning or an explanation needs and is not built here; "" when nothing is missing.
std::string MissingModule() {
  if (!std::filesystem::exists(std::string(std::getenv("SL_TEST_BUILD_DIR")) + "/lib/libnccl.so.2")) {
    return "libnccl.so.2";
  }
  const std::string modules = Starling("modules").text;
  for (const char* needed : {"device-host", "transport-shm", "algo-ring"}) {
    if (modules.find(needed) == std::string::npos) return needed;
  }
  return "";
}

TEST_F(ProfileCommand, ExplainNamesTheChoice) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome = Starling("explain all_reduce 8 1M --ranks 3");
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find("8 bytes over 3 ranks"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("1048576 bytes over 3 ranks"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("chosen: "), std::string::npos) << outcome.text;
}

TEST_F(ProfileCommand, AnOptionThatItsModuleCannotReadIsAnErrorOfItsPlace) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const std::string modules = Starling("modules").text;
  if (modules.find("transport-tcp") == std::string::npos) GTEST_SKIP() << "transport-tcp is not built";
  const std::string words = ": subnets: fd00::/129 is no subnet; write 192.0.2.0/24 or fd00::/8\n";
  setenv("STARLING_TRANSPORT_TCP_SUBNETS", "192.0.2.0/24,fd00::/129", 1);
  const Outcome by_variable = Starling("explain all_reduce 8");
  unsetenv("STARLING_TRANSPORT_TCP_SUBNETS");
  EXPECT_EQ(2, by_variable.exit_code) << by_variable.text;
  EXPECT_NE(by_variable.text.find("environment variable STARLING_TRANSPORT_TCP_SUBNETS: "), std::string::npos);
  EXPECT_NE(by_variable.text.find(words), std::string::npos) << by_variable.text;
  const std::string file = File("[modules.transport-tcp.options]\nsubnets = \"fd00::/129\"\n");
  const Outcome by_profile = Starling("explain all_reduce 8 --profile " + file);
  EXPECT_EQ(2, by_profile.exit_code) << by_profile.text;
  EXPECT_NE(by_profile.text.find(file + ":2:"), std::string::npos) << by_profile.text;
  EXPECT_NE(by_profile.text.find(words), std::string::npos) << by_profile.text;
}

TEST_F(ProfileCommand, ExplainFollowsAPinnedRule) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome =
      Starling("explain all_reduce 8 --profile " + File("[[select]]\nop = \"all_reduce\"\nalgorithm = \"ring\"\n"));
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find("chosen: ring"), std::string::npos) << outcome.text;
}

// Options that once chose among a module's algorithms: the error says what to write instead.
TEST_F(ProfileCommand, NamesTheRuleInPlaceOfAnOptionThatWentAway) {
  for (const char* option :
       {"gpu_family = \"direct\"", "gpu_family_only = true", "gpu_choices = \"all_reduce 2: direct\""}) {
    const Outcome outcome =
        Starling("profile check " + File(std::string("[modules.algo-symmetric.options]\n") + option + "\n"));
    if (outcome.text.find("algo-symmetric is not") != std::string::npos) GTEST_SKIP() << outcome.text;
    EXPECT_EQ(2, outcome.exit_code) << outcome.text;
    EXPECT_NE(outcome.text.find(":3:1: unknown option modules.algo-symmetric.options.gpu_"), std::string::npos)
        << outcome.text;
    EXPECT_NE(
        outcome.text.find("which of its algorithms serves is said by a rule: [[select]] with prefer = or algorithm = "
                          "one of symmetric, symmetric_bulk, symmetric_direct"),
        std::string::npos)
        << outcome.text;
  }
}

TEST_F(ProfileCommand, TuneWritesCostsThatDecideAndLeavesTheRestAlone) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const std::string mine = "# mine\n[link]\nlanes = 3\n[[select]]\nforbid = [\"tree\"]\n";
  const std::string tune = "bench --tune " + File(mine) + " all_reduce --ranks 2 -e 64 --repeat 1 --budget 20";
  for (int times = 0; times < 2; ++times) {
    const Outcome tuned = Starling(tune);
    ASSERT_EQ(0, tuned.exit_code) << tuned.text;
    EXPECT_NE(tuned.text.find("all_reduce over 2 ranks: "), std::string::npos) << tuned.text;
  }
  std::stringstream text;
  text << std::ifstream(path_).rdbuf();
  EXPECT_EQ(0u, text.str().find("profile_version = 1\n" + mine)) << text.str();
  EXPECT_EQ(text.str().find("[measured]"), text.str().rfind("[measured]")) << text.str();
  EXPECT_EQ(text.str().find("algorithm = \"tree\""), std::string::npos) << "the profile forbids it";
  const Outcome outcome = Starling("explain all_reduce 8 --ranks 2 --profile " + path_);
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find(" measured\nmeasured at " + path_), std::string::npos) << outcome.text;
}

TEST_F(ProfileCommand, TuneSaysWhatItsBudgetCutOff) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome = Starling("bench --tune " + File("") + " --ranks 2 --budget 0.1");
  // On a machine quick enough for one size within the budget it is good; else it says that nothing was measured.
  EXPECT_NE(outcome.text.find("# the budget of 0.1 s ended early; over 2 ranks estimates decide on all_reduce from "),
            std::string::npos)
      << outcome.text;
  EXPECT_TRUE(outcome.exit_code == 0 || outcome.text.find("give more with --budget") != std::string::npos);
}

TEST_F(ProfileCommand, TuneRefusesBadProfilesByTheirOwnName) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome = Starling("bench --tune " + File("[link]\nslots = 0\n"));
  EXPECT_EQ(2, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find(path_ + ":3:9: link.slots is 0"), std::string::npos) << outcome.text;
}

// Ranks are threads of the command: four of one host.
constexpr char kTreeIsCheap[] =
    "[measured]\nversion = 1\nmachine = \"a bench\"\nmodules = [\"algo-ring 0.0.1\"]\n[[measured.cost]]\n"
    "op = \"all_reduce\"\nranks = 4\nalgorithm = \"tree\"\npoints = [[8, 1], [64, 2]]\n[[measured.cost]]\n"
    "op = \"all_reduce\"\nranks = 4\nalgorithm = \"ring\"\npoints = [[8, 5], [64, 6]]\n";

TEST_F(ProfileCommand, ExplainShowsMeasuredTimesAndWhatDecided) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome = Starling("explain all_reduce 8 128 --ranks 4 --profile " + File(kTreeIsCheap));
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(outcome.text.find("chosen: tree, the cheapest of 2 measured; passed over as not measured: "),
            std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("measured at " + path_ + ":2:1: a bench\n"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("estimated, since all_reduce was measured from 8 to 64 bytes"), std::string::npos)
      << outcome.text;
}

TEST_F(ProfileCommand, ShowWarnsOfCostsThatOtherModulesWereMeasuredFor) {
  if (!MissingModule().empty()) GTEST_SKIP() << MissingModule() << " is not built";
  const Outcome outcome = Starling("profile show " + File(kTreeIsCheap));
  EXPECT_EQ(0, outcome.exit_code) << outcome.text;
  EXPECT_NE(
      outcome.text.find("# warning: " + path_ + ":2:1: the costs were measured with algo-ring 0.0.1, but in use "),
      std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("points = [[8, 1], [64, 2]]"), std::string::npos) << outcome.text;
  const std::string unknown = File(
      "[measured]\nversion = 1\n[[measured.cost]]\nop = \"send\"\nranks = 2\nalgorithm = \"rink\"\npoints = [[8, "
      "1]]\n");
  EXPECT_NE(Starling("profile show " + unknown).text.find("costs of rink are not used"), std::string::npos);
}

}  // namespace
}  // namespace sl::tools

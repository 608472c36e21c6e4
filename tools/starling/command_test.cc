// SPDX-License-Identifier: Apache-2.0
// The program itself: exit codes of bad usage, and a small measurement where libnccl.so.2 was built.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace sl::tools {
namespace {

std::string BuildDir() {
  const char* folder = std::getenv("SL_TEST_BUILD_DIR");
  return folder ? folder : "build";
}

struct Outcome {
  int exit_code;
  std::string text;  // both streams
};

Outcome Shell(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  Outcome outcome{-1, ""};
  std::array<char, 4096> chunk;
  while (size_t got = fread(chunk.data(), 1, chunk.size(), pipe)) outcome.text.append(chunk.data(), got);
  outcome.exit_code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

Outcome Starling(const std::string& arguments) {
  return Shell("timeout 50 " + BuildDir() + "/bin/starling " + arguments);
}

bool HasLibrary() { return std::filesystem::exists(BuildDir() + "/lib/libnccl.so.2"); }

TEST(Command, ExitsWithTwoOnBadUsage) {
  for (const char* arguments : {"",
                                "nonsense",
                                "bench",
                                "bench nonsense",
                                "bench all_reduce -b x",
                                "demo --ranks 1",
                                "demo -d all",
                                "run",
                                "run --",
                                "bench all_reduce --library /no/such/file",
                                "run --library /no/such/file -- true",
                                "run --library /tmp -- true",
                                "verify --ranks 0",
                                "verify --chunk-bytes 0",
                                "verify --chunk-bytes 8G",
                                "bench --tune ''",
                                "verify --collective nonsense",
                                "verify --module /no/such/file",
                                "verify --profile some --module other",
                                "explain all_reduce 8 --hosts 0",
                                "explain all_reduce 8 --hosts 40 --ranks 40"}) {
    const Outcome outcome = Starling(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.text;
    EXPECT_FALSE(outcome.text.empty()) << arguments;
  }
}

TEST(Command, SaysBeforeItWorksThatItCannotWriteTheOutcome) {
  const std::string module = BuildDir() + "/lib/starling/algo-ring.so ";
  for (const std::string& arguments :
       {std::string("bench all_reduce --ranks 2 -b 8 -e 8 --library /bin/sh -J "),
        std::string("demo --library /bin/sh --report "), std::string("verify --ranks 3 --algorithm ring --json "),
        "conform " + module + "--json ", "conform " + module + "--junit "}) {
    for (const char* path : {"/proc/no/x", "/tmp"}) {
      if (arguments.starts_with("conform") && !std::filesystem::exists(BuildDir() + "/lib/starling/algo-ring.so"))
        continue;
      const Outcome outcome = Starling(arguments + path);
      EXPECT_EQ(outcome.exit_code, arguments.starts_with("verify") ? 2 : 1) << arguments;
      EXPECT_NE(outcome.text.find(std::string(": cannot write ") + path + " (-"), std::string::npos) << outcome.text;
      EXPECT_EQ(outcome.text.find('\n'), outcome.text.size() - 1) << outcome.text;
    }
  }
}

TEST(Command, HelpsWithZero) {
  for (const char* arguments : {"--help", "bench --help", "demo --help", "run --help", "--version"}) {
    EXPECT_EQ(Starling(arguments).exit_code, 0) << arguments;
  }
}

TEST(Command, RefusesALibraryThatIsNoNccl) {
  const Outcome outcome = Starling("bench all_reduce --ranks 2 --library /bin/sh");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.text.find("/bin/sh"), std::string::npos) << outcome.text;
}

TEST(Command, CountsGraphsAsSkipped) {
  if (!HasLibrary()) GTEST_SKIP() << "libnccl.so.2 is not built";
  const Outcome outcome = Starling("bench all_reduce --ranks 2 -G 3");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.text.find("1 measurement skipped"), std::string::npos) << outcome.text;
}

TEST(Command, MeasuresAndChecks) {
  if (!HasLibrary()) GTEST_SKIP() << "libnccl.so.2 is not built";
  const std::string json = std::filesystem::temp_directory_path() / ("starling-" + std::to_string(getpid()) + ".json");
  const Outcome outcome = Starling("bench all_reduce --ranks 2 -b 8 -e 8K -f 32 -n 3 -J " + json);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.text;
  std::ifstream file(json);
  const nlohmann::json document = nlohmann::json::parse(file);
  EXPECT_EQ(document["results"].size(), 3u);
  EXPECT_EQ(document["out_of_bounds"]["count"], 0);
  std::filesystem::remove(json);
}

TEST(Command, ExplainsWhatServesBetweenHosts) {
  if (!std::filesystem::exists(BuildDir() + "/lib/starling/algo-two-level.so")) GTEST_SKIP() << "it is not built";
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);  // nobody is called from afar
  const Outcome one = Starling("explain all_reduce 1M --ranks 4");
  const Outcome two = Starling("explain all_reduce 1M --hosts 2 --ranks 2");
  unsetenv("NCCL_SOCKET_IFNAME");
  EXPECT_EQ(one.exit_code, 0) << one.text;
  EXPECT_EQ(two.exit_code, 0) << two.text;
  EXPECT_EQ(one.text.find("* two-level"), std::string::npos) << one.text;
  EXPECT_NE(two.text.find("* two-level"), std::string::npos) << two.text;
}

TEST(Command, VerifiesPlans) {
  if (!std::filesystem::exists(BuildDir() + "/lib/starling/algo-ring.so")) GTEST_SKIP() << "algo-ring is not built";
  const std::string json = std::filesystem::temp_directory_path() / ("verify-" + std::to_string(getpid()) + ".json");
  const Outcome outcome = Starling("verify --ranks 3 --algorithm ring --collective reduce --count 7 --json " + json);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  std::ifstream file(json);
  const nlohmann::json document = nlohmann::json::parse(file);
  EXPECT_TRUE(document["good"].get<bool>());
  ASSERT_EQ(document["rows"].size(), 1u);
  const nlohmann::json& row = document["rows"][0];
  EXPECT_EQ(row["outcome"], "proved");
  EXPECT_EQ(row["proved"], 10 * 3 * 2);  // types with reductions, roots, placements
  EXPECT_EQ(row["proved_by_folding"], 10 * 2);
  EXPECT_EQ(row["proved_by_rotation"], 10 * 2 * 2);
  std::filesystem::remove(json);
  const Outcome executed =
      Starling("verify --ranks 3 --algorithm ring --collective reduce --count 7 --no-folding --threads 2");
  EXPECT_EQ(executed.exit_code, 0) << executed.text;
  EXPECT_NE(executed.text.find("60 cases proved, 0 of them by folding, 40 as rotations"), std::string::npos)
      << executed.text;
}

TEST(Command, PassesTheExitCodeOfARunProgramOn) {
#ifdef SL_SANITIZED
  GTEST_SKIP() << "a sanitized library cannot be preloaded into a program that is not";
#endif
  if (!HasLibrary()) GTEST_SKIP() << "libnccl.so.2 is not built";
  EXPECT_EQ(Starling("run -- sh -c 'exit 7'").exit_code, 7);
  EXPECT_EQ(Starling("run -- sh -c 'kill -9 $$'").exit_code, 137);
  EXPECT_EQ(Starling("run -- no-such-program").exit_code, 127);
  const Outcome mapped =
      Starling("run --profile auto -- sh -c 'grep -c libnccl /proc/$$/maps; echo $STARLING_PROFILE'");
  EXPECT_EQ(mapped.exit_code, 0) << mapped.text;
  EXPECT_NE(mapped.text.find("auto"), std::string::npos) << mapped.text;
}

// What a program under `starling run` finds; a library that is no NCCL will do.
class RunCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/starling-run-XXXXXX";
    folder_ = mkdtemp(pattern);
#ifdef SL_SANITIZED
    GTEST_SKIP() << "a sanitized library cannot be preloaded into a program that is not";
#endif
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Program(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    std::filesystem::permissions(folder_ + "/" + name, std::filesystem::perms::owner_all);
  }
  // In the folder of programs; `before` stands in front of the command.
  Outcome Run(const std::string& arguments, const std::string& before = "") {
    const std::string binary = std::filesystem::absolute(BuildDir()).string() + "/bin/starling";
    return Shell("cd " + folder_ + "; timeout -k 1 20 " + before + binary + " run --library " +
                 std::filesystem::absolute(BuildDir()).string() + "/lib/libstarling.so " + arguments);
  }

  std::string folder_;
};

TEST_F(RunCommand, EndsWithItsProgramWhereEndsOfChildrenAreIgnored) {
  const Outcome outcome = Run("-- sh -c 'exit 7'", "env --ignore-signal=CHLD ");
  EXPECT_EQ(outcome.exit_code, 7) << outcome.text;
}

TEST_F(RunCommand, StartsWhatAShellWouldAndSaysWhyNot) {
  Program("plain", "echo of the shell: $1\n");
  Program("lost", "#!/no/such/interpreter\n");
  const Outcome plain = Run("-- ./plain word");
  EXPECT_EQ(plain.exit_code, 0) << plain.text;
  EXPECT_NE(plain.text.find("of the shell: word"), std::string::npos) << plain.text;
  const Outcome lost = Run("-- ./lost");
  EXPECT_EQ(lost.exit_code, 127);
  EXPECT_NE(lost.text.find("./lost: it is there, but the interpreter"), std::string::npos) << lost.text;
  const Outcome bare = Run("-- plain");
  EXPECT_EQ(bare.exit_code, 127);
  EXPECT_NE(bare.text.find("plain: not found in PATH; write ./plain"), std::string::npos) << bare.text;
}

TEST_F(RunCommand, NamesAProfileFileSoThatItIsFoundFromEverywhere) {
  std::ofstream(folder_ + "/site.toml") << "profile_version = 1\n";
  const Outcome outcome = Run("--profile site.toml -- sh -c 'cd /; cat $STARLING_PROFILE'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("profile_version = 1"), std::string::npos) << outcome.text;
}

TEST_F(RunCommand, RefusesAProfileThatTheLibraryWouldRefuseBeforeItStartsAnything) {
  const std::string here = "STARLING_PROFILE_PATH=" + folder_ + " ";
  std::ofstream(folder_ + "/site.toml") << "profile_version = 1\n";
  std::ofstream(folder_ + "/wrong.toml") << "profile_version = 1\ncomm.no_key = 1\n";
  const Outcome found = Run("--profile site -- sh -c 'echo $STARLING_PROFILE; touch started'", "env " + here);
  EXPECT_EQ(found.exit_code, 0) << found.text;
  EXPECT_EQ(found.text, "site\n");
  EXPECT_TRUE(std::filesystem::remove(folder_ + "/started"));
  const std::pair<const char*, std::string> refused[] = {
      {"sitte", "starling run: --profile: there is no profile sitte: no sitte.toml in " + folder_ + ", "},
      {"sitte", "site"},
      {"./none.toml", "./none.toml"},
      {"wrong", "wrong.toml:2:"},
      {"wrong.toml", "comm.no_key"},
  };
  for (const auto& [profile, words] : refused) {
    const Outcome outcome = Run(std::string("--profile ") + profile + " -- touch started", "env " + here);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.text;
    EXPECT_NE(outcome.text.find(words), std::string::npos) << outcome.text;
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/started")) << outcome.text;
  }
}

TEST_F(RunCommand, ItsProgramDiesWithIt) {
  // A zombie has no command line.
  const Outcome outcome =
      Run("-- sh -c 'echo $$ > child; echo $PPID > self; exec sleep 100' & until [ -s self ]; do sleep 0.02; done; "
          "sleep 0.1; kill -9 $(cat self); for i in 1 2 3 4 5 6 7 8 9; do "
          "grep -qs sleep /proc/$(cat child)/cmdline || exit 5; sleep 0.2; done; kill $(cat child)");
  EXPECT_EQ(outcome.exit_code, 5) << outcome.text;
}

}  // namespace
}  // namespace sl::tools

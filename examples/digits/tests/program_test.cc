// SPDX-License-Identifier: Apache-2.0
//
// The whole program, from outside: what it refuses, how it joins a launcher, and that one lost rank ends the job.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "shell.h"

namespace digits {
namespace {

const std::string kProgram = std::string("'") + DIGITS_PROGRAM + "' ";
// The tests may themselves run below a launcher.
const std::string kNoLauncher =
    "unset RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE SLURM_PROCID SLURM_NTASKS\n";

void ExpectRefused(const std::string& command, const std::string& message) {
  const Outcome outcome = RunShell(kNoLauncher + command);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_NE(outcome.output.find(message), std::string::npos) << outcome.output;
}

TEST(Program, RefusesWhatItDoesNotUnderstand) {
  ExpectRefused(kProgram + "--rank 2", "unknown argument '--rank'");
  ExpectRefused(kProgram + "--ranks", "--ranks wants a value");
  ExpectRefused(kProgram + "--ranks 0", "--ranks wants a whole number from 1 to 256, not '0'");
  ExpectRefused(kProgram + "--epochs 3x", "not '3x'");
  ExpectRefused(kProgram + "--ranks 2 --id-file f", "give one of the two");
  ExpectRefused(kProgram + "--id-file f", "none started this process");
  ExpectRefused("RANK=0 WORLD_SIZE=2 " + kProgram, "set MASTER_ADDR to its host and MASTER_PORT to a free port there");
  ExpectRefused("RANK=0 " + kProgram, "RANK is set and WORLD_SIZE is not");
}

TEST(Program, PrintsItsOptions) {
  const Outcome outcome = RunShell(kProgram + "--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("--ranks N"), std::string::npos);
}

TEST(Program, FailsOnceWhenTheDataIsMissing) {
  const Outcome outcome = RunShell(kProgram + "--ranks 2 --data /nowhere.csv");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output,
            "digits: cannot open /nowhere.csv: No such file or directory; name the data with --data FILE\n");
}

TEST(Program, TrainsWhenRanksOutnumberTheImagesOfABatch) {
  const Outcome outcome = RunShell(kProgram + "--ranks 4 --batch 3 --epochs 1 --timeout 60");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("\nepoch 1 loss "), std::string::npos) << outcome.output;
}

TEST(Program, JoinsTheRanksOfALauncher) {
  const TemporaryFolder folder;
  const std::string join = kProgram + "--epochs 2 --timeout 60 --id-file '" + folder / "id" + "'";
  const Outcome outcome =
      RunShell(kNoLauncher + "RANK=1 WORLD_SIZE=2 " + join + " &\nRANK=0 WORLD_SIZE=2 " + join + " && wait $!");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("ranks 2, global batch 64\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\naccuracy: "), std::string::npos) << outcome.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "id"));
}

// The processes that `parent` started, in no order.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    // "pid (name) state parent …"; the name may hold anything, even a parenthesis.
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    char state = 0;
    pid_t found = 0;
    if (rest >> state >> found && found == parent) children.push_back(std::stoi(entry.path().filename()));
  }
  return children;
}

TEST(Program, EndsWhenARankIsKilledInTheMiddle) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl(DIGITS_PROGRAM, DIGITS_PROGRAM, "--ranks", "3", "--epochs", "1000000", "--timeout", "90", nullptr);
    _exit(127);
  }
  close(ends[1]);
  FILE* lines = fdopen(ends[0], "r");
  std::string output;
  bool killed = false;
  std::array<char, 4096> line;
  while (fgets(line.data(), line.size(), lines) != nullptr) {
    if (!killed && std::string(line.data()).starts_with("epoch 2 ")) {
      const std::vector<pid_t> ranks = ChildrenOf(parent);
      EXPECT_EQ(ranks.size(), 3u);
      killed = !ranks.empty() && kill(ranks.back(), SIGKILL) == 0;
    }
    if (!std::string(line.data()).starts_with("epoch ")) output += line.data();
  }
  fclose(lines);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(killed);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(output.find(" was killed by signal 9\n"), std::string::npos) << output;
  EXPECT_EQ(output.find("accuracy"), std::string::npos) << output;
}

}  // namespace
}  // namespace digits

// SPDX-License-Identifier: Apache-2.0
// The `starling` command: one line per subcommand (commands.h says how to add one).
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tools/starling/bench_error.h"
#include "tools/starling/cmd_crash.h"
#include "tools/starling/commands.h"

namespace {

struct Command {
  const char* name;
  const char* help;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"bench", "measure and check a collective through the NCCL API, in nccl-tests' words", sl::tools::CmdBench},
    {"conform", "prove a module against the conformance suites of what it provides", sl::tools::CmdConform},
    {"demo", "run and check all nine collectives over local processes and draw a report", sl::tools::CmdDemo},
    {"explain", "say which algorithm serves an operation, and why", sl::tools::CmdExplain},
    {"modules", "list the modules on the search path and what the profile makes of them", sl::tools::CmdModules},
    {"profile", "check a profile, print what it amounts to, or what it could say", sl::tools::CmdProfile},
    {"run", "start a program with the drop-in library preloaded", sl::tools::CmdRun},
    {"verify", "prove that the plans of algorithms compute their collectives", sl::tools::CmdVerify},
};

int Usage(FILE* out, int exit_code) {
  fprintf(out, "usage: starling COMMAND [OPTION...]\n\ncommands (each knows --help):\n");
  for (const Command& command : kCommands) fprintf(out, "  %-10s %s\n", command.name, command.help);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever started this may ignore it, which is inherited: then children vanish, and a wait for one never finds it.
  signal(SIGCHLD, SIG_DFL);
  if (argc < 2) return Usage(stderr, sl::tools::kExitUsage);
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
    return Usage(stdout, sl::tools::kExitGood);
  }
  if (!strcmp(argv[1], "--version")) {
    printf("starling %s\n", SL_VERSION);
    return sl::tools::kExitGood;
  }
  sl::tools::NameCrashes();
  for (const Command& command : kCommands) {
    if (!strcmp(argv[1], command.name)) return command.run(argc - 1, argv + 1);
  }
  fprintf(stderr, "starling: there is no command '%s'\n", argv[1]);
  return Usage(stderr, sl::tools::kExitUsage);
}

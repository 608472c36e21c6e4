// SPDX-License-Identifier: Apache-2.0
// `starling run`: any program with the drop-in library preloaded, and a word when that did not take effect.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "kernel/profile/profile.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/bench_options.h"
#include "tools/starling/commands.h"
#include "tools/starling/launch_segment.h"
#include "tools/starling/run_inspect.h"

namespace sl::tools {
namespace {

constexpr int kExitNotExecutable = 126;  // as env(1) and nohup(1) say it
constexpr int kExitNotFound = 127;
constexpr int64_t kMillisecond = 1'000'000;

struct RunOptions {
  std::string profile, library;
  std::vector<std::string> command;
};

// Without links and dots; empty when nothing is there.
std::string Absolute(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  std::string absolute = resolved != nullptr ? resolved : "";
  free(resolved);
  return absolute;
}

// What the library would refuse is refused before the program is started. A file is named so that the program finds it
// from any folder; a name is looked up by the library.
void ResolveProfile(RunOptions& options) {
  if (options.profile.empty()) return;
  const auto profile = kernel::Profile::Load(options.profile);
  if (!profile.ok()) throw CommandError(kExitUsage, "--profile: " + profile.status().message());
  const bool is_file = options.profile.find('/') != std::string::npos || options.profile.ends_with(".toml");
  if (is_file) options.profile = Absolute(options.profile);
}

RunOptions ParseRunOptions(int argc, char** argv) {
  RunOptions options;
  CLI::App app("Starts a program with libnccl.so.2 of this build preloaded: starling run [OPTION...] -- CMD [ARG...]",
               "starling run");
  app.add_option("--profile", options.profile, "profile name or file (sets STARLING_PROFILE)");
  app.add_option("--library", options.library, "library to preload (libnccl.so.2 of this installation)");
  app.footer(
      "The exit code is the program's (128 + signal when one ended it), 126 or 127 when it cannot be started,\n"
      "2 for bad usage.");
  int own = 1;
  while (own < argc && strcmp(argv[own], "--") != 0) ++own;
  std::vector<std::string> words(argv + 1, argv + own);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    throw CommandError(kExitGood, app.help());
  } catch (const CLI::ParseError& error) {
    throw CommandError(kExitUsage, std::string(error.what()) + " (put -- before the program: starling run -- CMD)");
  }
  if (own + 1 >= argc) throw CommandError(kExitUsage, "no program: starling run [OPTION...] -- CMD [ARG...]");
  options.command.assign(argv + own + 1, argv + argc);
  if (options.library.empty()) options.library = DefaultLibrary();
  const std::string library = options.library;
  options.library = Absolute(options.library);
  if (options.library.empty()) {
    throw CommandError(kExitUsage, "there is no library " + library + "; name one with --library");
  }
  struct stat status {};
  if (stat(options.library.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw CommandError(kExitUsage, options.library + " is no file that could be preloaded; name one with --library");
  }
  if (options.library.find_first_of(": \t\n") != std::string::npos) {
    throw CommandError(kExitUsage,
                       "the path " + options.library + " holds a blank or a colon, which LD_PRELOAD cannot");
  }
  ResolveProfile(options);
  return options;
}

// The library goes first; what was preloaded before stays.
void SetEnvironment(const RunOptions& options) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string preload = options.library + (before && *before ? std::string(":") + before : "");
  setenv("LD_PRELOAD", preload.c_str(), 1);
  if (!options.profile.empty()) setenv("STARLING_PROFILE", options.profile.c_str(), 1);
}

void Warn(const RunOptions& options, const std::string& text) {
  fprintf(stderr, "starling run: %s %s\n", options.command[0].c_str(), text.c_str());
}

// Watches a child: forwards signals, looks at its mappings now and then, collects its end.
class Watch {
 public:
  Watch(const RunOptions& options, pid_t pid, bool warned) : options_(options), pid_(pid), warned_(warned) {}

  int Wait(const sigset_t& watched) {
    int64_t started = MonotonicNs();
    for (;;) {
      int status = 0;
      const pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) return ExitCode(status);
      if (ended < 0 && errno != EINTR) throw CommandError(kExitFailure, std::string("waitpid: ") + strerror(errno));
      // Often at first, to see short programs too; once a second later, for a library that is opened late.
      const bool early = MonotonicNs() - started < 500 * kMillisecond;
      if (!warned_) Look(!early);
      timespec tick{early ? 0 : 1, early ? 2 * kMillisecond : 0};
      siginfo_t info;
      const int signal = sigtimedwait(&watched, &info, &tick);
      // One from the terminal (SI_KERNEL) has reached the child's process group already.
      if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) kill(pid_, signal);
    }
  }

 private:
  void Look(bool settled) {
    std::string other;
    switch (InspectProcess(pid_, options_.library, &other)) {
      case Preload::kDoubled:
        // As PyTorch's wheel does. The loader binds to what was preloaded, which it finds first.
        Say("has loaded another NCCL as well, " + other +
            ": its calls run on Starling, unless it looks them up in that file itself; then give it the path of " +
            options_.library);
        break;
      case Preload::kAbsent:
        // Early on the loader may be about to map it.
        if (settled) {
          Say("does not run on Starling: " + options_.library + " is not mapped in process " + std::to_string(pid_));
        }
        break;
      default:
        LookInside();
        break;
    }
  }

  // The loader binds its calls before it looks at what is preloaded, or does not bind them at all.
  void LookInside() {
    const std::string inside = FindNcclInside(pid_, options_.library, &seen_);
    if (inside.empty()) return;
    Say("has an NCCL linked into it: its calls do not run on Starling (" + inside +
        "); use a build that links NCCL dynamically (PyTorch: USE_SYSTEM_NCCL=1)");
  }

  void Say(const std::string& text) {
    warned_ = true;
    Warn(options_, text);
  }

  static int ExitCode(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

  const RunOptions& options_;
  const pid_t pid_;
  bool warned_;
  std::set<std::string> seen_;
};

// Forks and executes; returns the child, or -1 with the exec's errno in `error`.
pid_t Start(const RunOptions& options, const std::string& program, const sigset_t& before, int* error) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw CommandError(kExitFailure, std::string("pipe: ") + strerror(errno));
  std::vector<char*> argv;
  for (const std::string& word : options.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // A script without a first line that names its interpreter is the shell's, as for execvp(3).
  std::vector<char*> by_shell = {const_cast<char*>("/bin/sh"), const_cast<char*>(program.c_str())};
  by_shell.insert(by_shell.end(), argv.begin() + 1, argv.end());
  SetEnvironment(options);
  const pid_t self = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    // Killing this command is to kill the program, as if it had been started without.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(kExitFailure);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execv(program.c_str(), argv.data());
    if (errno == ENOEXEC) execv(by_shell[0], by_shell.data());
    const int failed = errno;
    [[maybe_unused]] ssize_t written = write(report[1], &failed, sizeof failed);
    _exit(kExitNotFound);
  }
  close(report[1]);
  if (pid < 0) throw CommandError(kExitFailure, std::string("fork: ") + strerror(errno));
  // The pipe closes when exec succeeds.
  const bool failed = read(report[0], error, sizeof *error) == static_cast<ssize_t>(sizeof *error);
  close(report[0]);
  if (!failed) return pid;
  waitpid(pid, nullptr, 0);
  return -1;
}

int Run(int argc, char** argv) {
  const RunOptions options = ParseRunOptions(argc, argv);
  const std::string& command = options.command[0];
  const std::string program = FindProgram(command);
  if (program.empty()) {
    const bool exists = !command.empty() && access(command.c_str(), F_OK) == 0;
    const bool is_path = command.find('/') != std::string::npos;
    const std::string remedy =
        exists && !is_path ? " in PATH; write ./" + command + " to mean the one in this folder" : "";
    fprintf(stderr, "starling run: %s: %s%s\n", command.c_str(), exists && is_path ? "not executable" : "not found",
            remedy.c_str());
    return exists && is_path ? kExitNotExecutable : kExitNotFound;
  }
  const std::string why = WhyPreloadFails(program);
  if (!why.empty()) Warn(options, "does not run on Starling: " + why);
  sigset_t watched, before;
  sigemptyset(&watched);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
  int error = 0;
  const pid_t pid = Start(options, program, before, &error);
  if (pid < 0) {
    const bool half = error == ENOENT;  // the file itself was found
    fprintf(stderr, "starling run: %s: %s\n", program.c_str(),
            half ? "it is there, but the interpreter or loader that it names is not" : strerror(error));
    return half ? kExitNotFound : kExitNotExecutable;
  }
  return Watch(options, pid, !why.empty()).Wait(watched);
}

}  // namespace

int CmdRun(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const CommandError& error) {
    fprintf(error.exit_code() ? stderr : stdout, "%s%s\n", error.exit_code() ? "starling run: " : "", error.what());
    return error.exit_code();
  }
}

}  // namespace sl::tools

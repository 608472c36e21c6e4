// SPDX-License-Identifier: Apache-2.0
#include "tools/starling/launch_local.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tools/starling/bench_error.h"
#include "tools/starling/launch_identity.h"
#include "tools/starling/launch_segment.h"

namespace sl::tools {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kGraceNs = 3 * kSecond;  // for the others to end by themselves after the first failure
constexpr int64_t kTermNs = 1 * kSecond;   // between SIGTERM and SIGKILL

struct Child {
  pid_t pid = -1;
  bool running = false;
};

// Everything the child needs, made before fork: between fork and exec nothing is allocated.
struct Prepared {
  int cpu = -1;  // -1: wherever the system likes
  std::vector<char*> argv;
  std::vector<std::string> environment;
  std::vector<char*> envp;
};

void Prepare(const LaunchSpec& spec, int process, int fd, Prepared& out) {
  for (const std::string& word : spec.command) out.argv.push_back(const_cast<char*>(word.c_str()));
  out.argv.push_back(nullptr);
  std::map<std::string, std::string> added(spec.environment.begin(), spec.environment.end());
  added[kLaunchVariable] = std::to_string(process) + " " + std::to_string(spec.processes) + " " + std::to_string(fd);
  for (char** entry = environ; *entry; ++entry) {
    std::string text = *entry;
    if (!added.count(text.substr(0, text.find('=')))) out.environment.push_back(std::move(text));
  }
  for (const auto& [name, value] : added) out.environment.push_back(name + "=" + value);
  for (std::string& text : out.environment) out.envp.push_back(text.data());
  out.envp.push_back(nullptr);
}

// The CPU of one process: the n-th this launcher may use; -1 when processes or their threads have to share.
int CpuFor(const LaunchSpec& spec, int process) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (!spec.bind || spec.workers != spec.processes || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return -1;
  const int together = spec.processes / spec.turns;
  if (CPU_COUNT(&allowed) < together) return -1;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed) && seen++ == process % together) return cpu;
  }
  return -1;
}

[[noreturn]] void ChildMain(const LaunchSpec& spec, const Prepared& prepared, const sigset_t& mask, pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(kExitFailure);  // it died before the line above
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (spec.quiet_stdout) {
    int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, STDOUT_FILENO);
  }
  if (prepared.cpu >= 0) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<size_t>(prepared.cpu), &only);
    sched_setaffinity(0, sizeof(only), &only);  // a wish; without it the process runs all the same
  }
  execve(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  _exit(127);
}

std::string Ending(int status) {
  if (WIFSIGNALED(status)) {
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  }
  if (WEXITSTATUS(status) == 127) return "could not be executed";
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

class Supervisor {
 public:
  Supervisor(const LaunchSpec& spec, SharedSegment& segment) : spec_(spec), segment_(segment) {
    children_.resize(static_cast<size_t>(spec.processes));
    sigemptyset(&watched_);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
    sigprocmask(SIG_BLOCK, &watched_, &before_);
  }
  ~Supervisor() {
    // A signal that a dead child left pending must not hit the caller.
    timespec none{0, 0};
    while (sigtimedwait(&watched_, nullptr, &none) > 0) continue;
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }

  LaunchResult Run() {
    for (int process = 0; process < spec_.processes && result_.exit_code == 0; ++process) Start(process);
    last_change_ns_ = MonotonicNs();
    while (std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.running; })) {
      timespec tick{0, 50'000'000};
      int signal = sigtimedwait(&watched_, nullptr, &tick);
      if (signal > 0 && signal != SIGCHLD) {
        Failed(kExitFailure, std::string("interrupted by signal ") + std::to_string(signal));
        KillAll(SIGTERM);
      }
      Reap();
      if (failed_at_ns_ == 0) Watch();
      if (failed_at_ns_ != 0) Enforce();
    }
    return result_;
  }

 private:
  void Start(int process) {
    Prepared prepared;
    Prepare(spec_, process, segment_.fd(), prepared);
    prepared.cpu = CpuFor(spec_, process);
    const pid_t launcher = getpid();
    const pid_t pid = fork();
    if (pid == 0) ChildMain(spec_, prepared, before_, launcher);
    if (pid < 0) return Failed(kExitFailure, std::string("cannot start a process: ") + std::strerror(errno));
    children_[static_cast<size_t>(process)] = {pid, true};
  }

  // Collects who has ended. Of several found at once one that was killed is the culprit: the others only followed it.
  void Reap() {
    std::string killed, exited;
    int exit_code = kExitFailure;
    for (size_t process = 0; process < children_.size(); ++process) {
      Child& child = children_[process];
      int status = 0;
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.running = false;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      const bool own_end = WIFEXITED(status) && WEXITSTATUS(status) != 127;
      if (own_end && WEXITSTATUS(status) == kExitUsage) exit_code = kExitUsage;
      std::string what =
          "process " + std::to_string(process) + " (pid " + std::to_string(child.pid) + ") " + Ending(status);
      const std::string doing = GetDoing(segment_.slot(static_cast<int>(process) * (spec_.workers / spec_.processes)));
      if (!doing.empty()) what += " in " + doing;
      std::string& list = own_end ? exited : killed;
      list += (list.empty() ? "" : "; ") + what;
    }
    if (!killed.empty()) {
      Failed(kExitFailure, killed);
    } else if (!exited.empty()) {
      Failed(exit_code, exited);
      if (result_.failure == exited) result_.explained = true;
    }
  }

  // No worker got on for timeout_s: names each and what it is doing.
  void Watch() {
    uint64_t sum = 0;
    for (int worker = 0; worker < spec_.workers; ++worker) {
      sum += segment_.slot(worker).progress.load(std::memory_order_relaxed);
    }
    const int64_t now = MonotonicNs();
    if (sum != last_sum_) {
      last_sum_ = sum;
      last_change_ns_ = now;
    }
    if (now - last_change_ns_ < spec_.timeout_s * kSecond) return;
    std::string what = "no progress for " + std::to_string(spec_.timeout_s) + " s (-T):";
    for (int worker = 0; worker < spec_.workers; ++worker) {
      const WorkerSlot& slot = segment_.slot(worker);
      what += "\n  worker " + std::to_string(worker) + " (pid " + std::to_string(slot.pid) + ") in " + GetDoing(slot) +
              ", step " + std::to_string(slot.progress.load());
    }
    Failed(kExitFailure, what);
    failed_at_ns_ -= kGraceNs;  // they are stuck: there is nothing to wait for
  }

  void Failed(int exit_code, const std::string& what) {
    if (failed_at_ns_ != 0) return;
    failed_at_ns_ = MonotonicNs();
    result_ = {exit_code, what, false};
    SegmentFail(segment_.get(), kMaxWorkers);
  }

  void Enforce() {
    const int64_t since = MonotonicNs() - failed_at_ns_;
    if (since > kGraceNs + kTermNs) {
      KillAll(SIGKILL);
    } else if (since > kGraceNs && !asked_) {
      asked_ = true;
      KillAll(SIGTERM);
    }
  }

  void KillAll(int signal) {
    for (const Child& child : children_) {
      if (child.running) kill(child.pid, signal);
    }
  }

  const LaunchSpec& spec_;
  SharedSegment& segment_;
  std::vector<Child> children_;
  sigset_t watched_;
  sigset_t before_;
  LaunchResult result_;
  int64_t failed_at_ns_ = 0;
  int64_t last_change_ns_ = 0;
  uint64_t last_sum_ = 0;
  bool asked_ = false;
};

}  // namespace

LaunchResult LaunchLocal(const LaunchSpec& spec) {
  SharedSegment segment = SharedSegment::Create(spec.workers);
  return Supervisor(spec, segment).Run();
}

std::string SelfPath() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) throw CommandError(kExitFailure, "cannot read /proc/self/exe; is /proc mounted?");
  return std::string(path, static_cast<size_t>(length));
}

}  // namespace sl::tools

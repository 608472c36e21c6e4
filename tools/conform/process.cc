// SPDX-License-Identifier: Apache-2.0
#include "tools/conform/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sdk/clock.h"
#include "tests/conformance/kit/calls.h"
#include "tools/starling/bench_error.h"
#include "tools/starling/launch_local.h"

namespace sl::conform {
namespace {

constexpr size_t kKeptOutput = 16384;
constexpr size_t kMaxReport = 1 << 20;
constexpr uint64_t kLastWordsMs = 500;  // from being asked where it is to being killed

// Reads all there is without waiting. False at the end of the stream.
bool Drain(int fd, std::string* out) {
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got > 0) {
      out->append(buffer, static_cast<size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

void CloseFd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

// Only what is safe between fork and exec.
[[noreturn]] void Exec(char* const* argv, int report, int output, int keep) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (report == keep) {
    fcntl(report, F_SETFD, 0);
  } else {
    dup2(report, keep);
  }
  execv(argv[0], argv);
  _exit(127);
}

}  // namespace

uint64_t NowMs() { return NowNs() / 1'000'000; }

Process::Process(const std::vector<std::string>& arguments, uint64_t limit_ms)
    : started_ms_(NowMs()), deadline_ms_(started_ms_ + limit_ms) {
  int report[2];
  int output[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw tools::CommandError(tools::kExitFailure, "no descriptor left for a pipe");
  if (pipe2(output, O_CLOEXEC) != 0) {
    close(report[0]);
    close(report[1]);
    throw tools::CommandError(tools::kExitFailure, "no descriptor left for a pipe");
  }
  constexpr int kReportFd = 3;  // in the child, where nothing else is open
  std::vector<std::string> words = {tools::SelfPath()};
  for (std::string word : arguments) {
    if (!word.empty() && word.back() == '=') word += std::to_string(kReportFd);
    words.push_back(std::move(word));
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) Exec(argv.data(), report[1], output[1], kReportFd);
  close(report[1]);
  close(output[1]);
  report_ = report[0];
  output_ = output[0];
  fcntl(report_, F_SETFL, O_NONBLOCK);
  fcntl(output_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0)
    throw tools::CommandError(tools::kExitFailure, std::string("cannot start a process: ") + strerror(errno));
  setpgid(pid_, pid_);  // here as well: whoever comes first
}

Process::~Process() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  CloseFd(&report_);
  CloseFd(&output_);
}

bool Process::Poll() {
  if (report_ >= 0 && (!Drain(report_, &report_text_) || report_text_.size() > kMaxReport)) CloseFd(&report_);
  if (output_ >= 0 && !Drain(output_, &output_text_)) CloseFd(&output_);
  if (output_text_.size() > kKeptOutput) output_text_.erase(0, output_text_.size() - kKeptOutput);
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    Finish(status);
    return true;
  }
  const uint64_t now_ms = NowMs();
  if (!was_asked_ && now_ms >= deadline_ms_) {
    was_asked_ = true;
    kill(pid_, SIGTERM);
  }
  if (!was_killed_ && now_ms >= deadline_ms_ + kLastWordsMs) {
    was_killed_ = true;
    kill(-pid_, SIGKILL);
  }
  return false;
}

void Process::Finish(int status) {
  elapsed_ms_ = NowMs() - started_ms_;
  if (report_ >= 0) Drain(report_, &report_text_);
  if (output_ >= 0) Drain(output_, &output_text_);
  const size_t mark = report_text_.find(kSlotMark);
  const std::string where = mark == std::string::npos ? "" : " in " + report_text_.substr(mark + strlen(kSlotMark));
  report_text_.erase(std::min(mark, report_text_.size()));
  if (was_asked_) {
    trouble_ =
        "did not end within " + std::to_string((deadline_ms_ - started_ms_ + 999) / 1000) + " s and was killed" + where;
  } else if (WIFSIGNALED(status)) {
    trouble_ = std::string("crashed: signal ") + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
               ")" + where;
  } else if (WEXITSTATUS(status) != 0) {
    trouble_ = "ended its process with code " + std::to_string(WEXITSTATUS(status));
  }
  // The group outlives its leader only when the test left a process behind.
  if (kill(-pid_, SIGKILL) == 0 && trouble_.empty()) trouble_ = "left a process running";
  pid_ = -1;
  CloseFd(&report_);
  CloseFd(&output_);
}

}  // namespace sl::conform

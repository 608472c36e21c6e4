// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/launch/share.h"

namespace digits {
namespace {

using Clock = std::chrono::steady_clock;

// How long the other ranks may take to report what they saw after one rank has failed.
constexpr std::chrono::seconds kGrace{2};

[[noreturn]] void ThrowErrno(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { Close(); }

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

void WriteAll(int fd, std::span<const std::byte> bytes, const std::string& where) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) ThrowErrno("cannot write the id to " + where);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

// Returns false when the data ends before `bytes` is full.
bool ReadAll(int fd, std::span<std::byte> bytes, const std::string& where) {
  while (!bytes.empty()) {
    const ssize_t done = read(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) ThrowErrno("cannot read the id from " + where);
    if (done == 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return true;
}

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};

// Ranks that one parent forked: a pipe leads from rank 0 to each other rank.
class PipeWorld final : public World {
 public:
  // Keeps the ends that `rank` needs of `pipes` (one a rank) and closes the rest, so that a reader whose writer dies
  // sees the end of the data.
  PipeWorld(int rank, std::vector<Pipe> pipes) : World(rank, static_cast<int>(pipes.size())), pipes_(std::move(pipes)) {
    for (int peer = 0; peer < size(); ++peer) {
      Pipe& pipe = pipes_[static_cast<size_t>(peer)];
      if (rank != 0) pipe.write_end.Close();
      if (rank != peer) pipe.read_end.Close();
    }
  }

  void Share(std::span<std::byte> bytes) override {
    if (rank() != 0) {
      const int fd = pipes_[static_cast<size_t>(rank())].read_end.get();
      if (!ReadAll(fd, bytes, "rank 0")) throw std::runtime_error("rank 0 ended before it shared the id");
      return;
    }
    for (int peer = 1; peer < size(); ++peer) {
      WriteAll(pipes_[static_cast<size_t>(peer)].write_end.get(), bytes, "rank " + std::to_string(peer));
    }
  }

 private:
  std::vector<Pipe> pipes_;
};

// Ranks that a launcher started, perhaps on several hosts.
class LauncherWorld final : public World {
 public:
  LauncherWorld(const sl::launch::Place& place, const std::string& id_file, std::chrono::seconds timeout)
      : World(place.rank, place.size), share_(place, id_file), timeout_(timeout) {}

  void Share(std::span<std::byte> bytes) override { share_.FromFirst(bytes, timeout_); }

 private:
  sl::launch::Share share_;
  const std::chrono::seconds timeout_;
};

// The children of RunLocally(), indexed by rank; -1 stands for one that has ended.
class Children {
 public:
  void Add(pid_t pid) { pids_.push_back(pid); }

  bool AnyLeft() const {
    return std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; });
  }

  // Collects those that have ended, without waiting. Returns false when one of them failed.
  bool Reap() {
    bool good = true;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      int status = 0;
      if (pids_[rank] < 0 || waitpid(pids_[rank], &status, WNOHANG) <= 0) continue;
      pids_[rank] = -1;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      good = false;
      Complain("rank " + std::to_string(rank) +
               (WIFSIGNALED(status) ? " was killed by signal " + std::to_string(WTERMSIG(status))
                                    : " ended with exit code " + std::to_string(WEXITSTATUS(status))));
    }
    return good;
  }

  void KillAll(std::string_view reason) {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] < 0) continue;
      Complain("rank " + std::to_string(rank) + " is still running " + std::string(reason) + ", killed");
      kill(pids_[rank], SIGKILL);
      while (waitpid(pids_[rank], nullptr, 0) < 0 && errno == EINTR) {
      }
      pids_[rank] = -1;
    }
  }

 private:
  std::vector<pid_t> pids_;
};

// Holds back SIGCHLD while it lives, so that the end of a child can be waited for, with a deadline.
class ChildSignal {
 public:
  ChildSignal() {
    std::signal(SIGCHLD, SIG_DFL);  // Whoever started us may have chosen to ignore it, which would hide exit codes.
    sigemptyset(&set_);
    sigaddset(&set_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set_, &before_);
  }
  ~ChildSignal() { Release(); }

  void Release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  void WaitUntil(Clock::time_point deadline) const {
    const auto left = std::max(deadline - Clock::now(), Clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    sigtimedwait(&set_, nullptr, &limit);
  }

 private:
  sigset_t set_;
  sigset_t before_;
};

int Supervise(Children& children, const ChildSignal& signal, std::chrono::seconds timeout) {
  Clock::time_point deadline = Clock::now() + timeout;
  bool failed = false;
  while (true) {
    if (!children.Reap() && !failed) {
      failed = true;
      deadline = std::min(deadline, Clock::now() + kGrace);
    }
    if (!children.AnyLeft()) return failed ? 1 : 0;
    if (Clock::now() >= deadline) {
      children.KillAll(failed ? "after another rank failed"
                              : "after " + std::to_string(timeout.count()) + " s (see --timeout)");
      return 1;
    }
    signal.WaitUntil(deadline);
  }
}

[[noreturn]] void RunChild(int rank, std::vector<Pipe> pipes, pid_t parent, const std::function<int(World&)>& body) {
  // A rank must not outlive its parent. The parent may have died before the request took effect.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  std::signal(SIGPIPE, SIG_IGN);  // A peer that has gone is an error to report, not a reason to vanish.
  int code = 1;
  {
    PipeWorld world(rank, std::move(pipes));
    code = body(world);
  }
  std::exit(code);
}

}  // namespace

void Complain(const std::string& what) {
  const std::string line = "digits: " + what + "\n";
  std::cerr << line;
}

int RunLocally(int ranks, std::chrono::seconds timeout, const std::function<int(World&)>& body) {
  std::vector<Pipe> pipes;
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) ThrowErrno("cannot make a pipe for rank " + std::to_string(rank));
    pipes.push_back({Descriptor(ends[0]), Descriptor(ends[1])});
  }
  ChildSignal signal;
  Children children;
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      signal.Release();
      RunChild(rank, std::move(pipes), parent, body);
    }
    if (pid < 0) {
      const int error = errno;
      children.KillAll("while another could not be started");
      errno = error;
      ThrowErrno("cannot start rank " + std::to_string(rank));
    }
    children.Add(pid);
  }
  pipes.clear();
  return Supervise(children, signal, timeout);
}

std::unique_ptr<World> JoinLauncher(const sl::launch::Place& place, const std::string& id_file,
                                    std::chrono::seconds timeout) {
  return std::make_unique<LauncherWorld>(place, id_file, timeout);
}

}  // namespace digits

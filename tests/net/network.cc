// SPDX-License-Identifier: Apache-2.0
#include "tests/net/network.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace sl::net {
namespace {

bool EnterSpaceOf(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/ns/net";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
  if (fd >= 0) close(fd);
  return entered;
}

// The commands of `batch`, one a line, by `ip` inside the namespace of `process`.
bool Configure(pid_t process, const std::string& batch) {
  const pid_t child = fork();
  if (child == 0) {
    int lines[2];
    if (!EnterSpaceOf(process) || pipe(lines) != 0) _exit(126);
    // Small enough for the pipe, so that one process can do both.
    if (write(lines[1], batch.data(), batch.size()) != static_cast<ssize_t>(batch.size())) _exit(126);
    close(lines[1]);
    dup2(lines[0], STDIN_FILENO);
    execlp("ip", "ip", "-batch", "-", nullptr);
    _exit(127);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Network::Network(int hosts) {
  if (geteuid() != 0) {
    missing_ = "network namespaces need root";
    return;
  }
  bridge_ = AddNamespace();
  RunIp(bridge_, "link add bridge type bridge\nlink set bridge up\n");
  for (int host = 0; host < hosts && missing_.empty(); ++host) {
    hosts_.push_back(AddNamespace());
    const std::string port = "port" + std::to_string(host);
    char six[32];
    std::snprintf(six, sizeof six, "fd77::%x/64", host + 1);
    RunIp(bridge_, "link add " + port + " type veth peer name eth0 netns " + std::to_string(hosts_.back()) +
                       "\nlink set " + port + " master bridge up\n");
    RunIp(hosts_.back(), "link set lo up\nlink set eth0 up\naddr add " + Ip(host) + "/24 dev eth0\naddr add " +
                             std::string(six) + " dev eth0 nodad\n");
  }
}

// A namespace ends with its last process, and its devices with it.
Network::~Network() {
  hosts_.push_back(bridge_);
  for (const pid_t holder : hosts_) {
    if (holder <= 0) continue;
    kill(holder, SIGKILL);
    waitpid(holder, nullptr, 0);
  }
}

pid_t Network::AddNamespace() {
  if (!missing_.empty()) return -1;
  int ready[2];
  if (pipe(ready) != 0) std::abort();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char made = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    if (getppid() != parent || write(ready[1], &made, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char made = 'n';
  close(ready[1]);
  if (read(ready[0], &made, 1) != 1 || made != 'y') missing_ = "this machine lets no network namespace be made";
  close(ready[0]);
  return child;
}

void Network::RunIp(pid_t space, const std::string& batch) {
  if (missing_.empty() && !Configure(space, batch)) missing_ = "the ip command cannot join namespaces (iproute2, veth)";
}

void Network::Enter(int host) const {
  if (EnterSpaceOf(hosts_[static_cast<size_t>(host)])) return;
  std::fprintf(stderr, "cannot enter the namespace of host %d: %s\n", host, std::strerror(errno));
  std::abort();
}

uint64_t Network::SentBytes(int host) const {
  std::ifstream devices("/proc/" + std::to_string(hosts_[static_cast<size_t>(host)]) + "/net/dev");
  for (std::string line; std::getline(devices, line);) {
    const size_t name = line.find("eth0:");
    if (name == std::string::npos) continue;
    // Eight numbers of what came in, then those of what went out, bytes first.
    std::istringstream numbers(line.substr(name + 5));
    uint64_t value = 0;
    for (int column = 0; column < 9; ++column) numbers >> value;
    return value;
  }
  std::fprintf(stderr, "host %d has no eth0 any more\n", host);
  std::abort();
}

void Network::SetCable(int host, bool plugged) const {
  if (Configure(bridge_, "link set port" + std::to_string(host) + (plugged ? " up\n" : " down\n"))) return;
  std::fprintf(stderr, "cannot move the cable of host %d\n", host);
  std::abort();
}

}  // namespace sl::net

// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/transport/process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

#include "tests/conformance/kit/calls.h"

namespace sl::conform::transport {

bool Talk::TellBytes(const void* bytes, size_t count) const {
  return send(fd_, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

bool Talk::HearBytes(void* bytes, size_t count) const {
  return recv(fd_, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

OtherProcess::OtherProcess(Trial& trial, const Life& life) : trial_(trial) {
  failures_ = memfd_create("failures", MFD_CLOEXEC);
  trial.Require(failures_ >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets_) == 0,
                "no descriptors are left for another process");
  pid_ = fork();
  if (pid_ == 0) Live(life);
  close(sockets_[1]);
  talk_ = Talk(sockets_[0]);
  trial.Require(pid_ > 0, "no other process can be started: {}", std::strerror(errno));
}

OtherProcess::~OtherProcess() {
  Kill();
  close(sockets_[0]);
  close(failures_);
}

void OtherProcess::Live(const Life& life) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(sockets_[0]);
  SayWhereItEnds(failures_);
  Trial trial(trial_.assignment());
  try {
    Ranks ranks(trial, 2);
    life(ranks, Talk(sockets_[1]));
  } catch (const TrialEnd&) {  // noted already
  }
  ExpectNothingThrown(trial);
  for (const std::string& message : trial.messages()) dprintf(failures_, "%s\n", message.c_str());
  _exit(0);
}

void OtherProcess::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void OtherProcess::Join() {
  if (pid_ <= 0) return;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  char buffer[4096];
  const ssize_t length = pread(failures_, buffer, sizeof buffer, 0);
  std::string text(buffer, length > 0 ? static_cast<size_t>(length) : 0);
  const size_t mark = text.find(kSlotMark);
  const std::string where = mark == std::string::npos ? "" : " in " + text.substr(mark + std::strlen(kSlotMark));
  trial_.Expect(!WIFSIGNALED(status), "the other process crashed: signal {}{}", WTERMSIG(status), where);
  std::istringstream lines(text.substr(0, mark));
  for (std::string line; std::getline(lines, line);) trial_.Expect(false, "in the other process: {}", line);
}

void OtherProcess::Explain() {
  Join();
  trial_.Require(false, "the other process ended before it was done");
  throw TrialEnd();
}

}  // namespace sl::conform::transport

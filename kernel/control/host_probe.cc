// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/host_probe.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "kernel/control/frame.h"

namespace sl::kernel {
namespace {

// Each is one packet on the way; more are no use to an answer that takes longer than this many beats.
constexpr size_t kMaxCalls = 8;

// From the address that the connection uses, so that the question takes the same way.
Fd CallAlong(int fd) {
  sockaddr_storage from{}, to{};
  socklen_t from_length = sizeof(from), to_length = sizeof(to);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&from), &from_length) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&to), &to_length) != 0) {
    return {};
  }
  // The port is at the same place in both families; 0 is any.
  reinterpret_cast<sockaddr_in*>(&from)->sin_port = 0;
  Fd call(socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!call.valid() || bind(call.get(), reinterpret_cast<sockaddr*>(&from), from_length) != 0) return {};
  if (connect(call.get(), reinterpret_cast<sockaddr*>(&to), to_length) != 0 && errno != EINPROGRESS) return {};
  return call;
}

}  // namespace

HostProbe::~HostProbe() {
  for (const Fd& call : calls_) control_->Forget(call.get());
}

void HostProbe::Ask(int fd) {
  if (calls_.size() == kMaxCalls) {
    control_->Forget(calls_.front().get());
    calls_.erase(calls_.begin());
  }
  Fd call = CallAlong(fd);
  if (!call.valid()) return;
  const int raw = call.get();
  calls_.push_back(std::move(call));  // first: what is watched must be known here
  // A call that ended at once, too, is reported here.
  if (!control_->Watch(raw, EPOLLOUT, this).ok()) Hang(raw);
}

void HostProbe::Hang(int fd) {
  control_->Forget(fd);
  std::erase_if(calls_, [fd](const Fd& call) { return call.get() == fd; });
}

// The call counts as unanswered.
void HostProbe::OnFailed(int fd, const Status&) { Hang(fd); }

void HostProbe::OnReady(int fd, uint32_t) {
  int error = 0;
  socklen_t length = sizeof(error);
  const bool known = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0;
  if (known && error == 0) {
    // Says what the call was for, so that the switchboard does not take it for a stranger's.
    const Bytes beat = EncodeFrame(FrameType::kBeat, 0, {});
    [[maybe_unused]] const ssize_t sent = send(fd, beat.data(), beat.size(), MSG_NOSIGNAL);
  }
  Hang(fd);
  if (known && (error == 0 || error == ECONNREFUSED || error == ECONNRESET)) on_answer_();
}

}  // namespace sl::kernel

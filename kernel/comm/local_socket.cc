// SPDX-License-Identifier: Apache-2.0
#include "kernel/comm/local_socket.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace sl::kernel {
namespace {

Status SystemError(const char* call) {
  const int error = errno;
  const bool limit = error == EMFILE || error == ENFILE;
  std::string text = std::string(call) + ": " + std::strerror(error);
  if (limit) text += "; raise the descriptor limit (ulimit -n)";
  return {limit ? SL_ERR_LIMIT : SL_ERR_SYSTEM, text};
}

Status Gone() { return {SL_ERR_PEER_LOST, "the other end of a local socket is gone"}; }

// An abstract address: a NUL byte, a prefix that tools can show, the name in hex.
socklen_t FillAddress(const SocketName& name, sockaddr_un* address) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "starling-";
  for (uint8_t byte : name) {
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  *address = {};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

// Whether the process at the other end, or the one that listens there, runs as this user or as root.
bool IsTrusted(const Fd& fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

Result<Fd> NewSocket() {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError("socket");
  return fd;
}

}  // namespace

uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void FillRandom(std::span<uint8_t> bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = getrandom(bytes.data() + at, bytes.size() - at, 0);
    if (got > 0) at += static_cast<size_t>(got);
  }
}

Result<Listener> Listen() {
  SL_ASSIGN(Fd fd, NewSocket());
  Listener listener;
  FillRandom(listener.name);
  sockaddr_un address;
  const socklen_t length = FillAddress(listener.name, &address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return SystemError("bind");
  if (listen(fd.get(), 1024) != 0) return SystemError("listen");
  listener.fd = std::move(fd);
  return listener;
}

Result<Fd> Connect(const SocketName& name, const Patience& patience) {
  sockaddr_un address;
  const socklen_t length = FillAddress(name, &address);
  SL_ASSIGN(Fd fd, NewSocket());
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) return Gone();
    if (errno != EAGAIN && errno != EINTR) return SystemError("connect");
    if (NowNs() >= patience.deadline_ns || patience.cancelled())
      return Status(SL_ERR_TIMEOUT, "a local listener's queue stays full");
    poll(nullptr, 0, 1);  // EAGAIN: the listener's queue is full, and no event tells when it is not
  }
  // Names can be read by everybody, and are free again when their owner ends.
  if (!IsTrusted(fd)) return Status(SL_ERR_DENIED, "the process that listens under a rank's name runs as another user");
  return fd;
}

Result<Fd> Accept(const Fd& listener) {
  for (;;) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return Status(SL_ERR_AGAIN);
      return SystemError("accept");
    }
    if (IsTrusted(fd)) return fd;
  }
}

Status WaitFor(int fd, short events, const Patience& patience) {
  constexpr uint64_t kSliceMs = 50;
  for (;;) {
    if (patience.cancelled()) return {SL_ERR_ABORTED, "aborted while waiting for a local peer"};
    const uint64_t now = NowNs();
    if (now >= patience.deadline_ns) return {SL_ERR_TIMEOUT, "a local peer did not answer in time"};
    const uint64_t left_ms = std::min<uint64_t>((patience.deadline_ns - now) / 1000000 + 1, kSliceMs);
    pollfd item{fd, events, 0};
    const int ready = poll(&item, 1, static_cast<int>(left_ms));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return SystemError("poll");
  }
}

Status SendAll(int fd, std::span<const uint8_t> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLOUT, patience));
    } else if (sent < 0 && errno != EINTR) {
      return errno == EPIPE || errno == ECONNRESET ? Gone() : SystemError("send");
    }
  }
  return {};
}

Status ReceiveAll(int fd, std::span<uint8_t> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return Gone();
    } else if (errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLIN, patience));
    } else if (errno != EINTR) {
      return SystemError("recv");
    }
  }
  return {};
}

Status SendDescriptor(int fd, int descriptor, const Patience& patience) {
  uint8_t byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  for (;;) {
    if (sendmsg(fd, &message, MSG_NOSIGNAL) == 1) return {};
    if (errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLOUT, patience));
    } else if (errno != EINTR) {
      return errno == EPIPE || errno == ECONNRESET ? Gone() : SystemError("sendmsg");
    }
  }
}

Result<Fd> ReceiveDescriptor(int fd, const Patience& patience) {
  uint8_t byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  for (;;) {
    const ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got == 1) break;
    if (got == 0) return Gone();
    if (errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLIN, patience));
    } else if (errno != EINTR) {
      return SystemError("recvmsg");
    }
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if ((message.msg_flags & MSG_CTRUNC) != 0 && header == nullptr) {
    return Status(SL_ERR_LIMIT, "no descriptor is left to take one from a local peer; raise the limit (ulimit -n)");
  }
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return Status(SL_ERR_LINK_CORRUPT, "a local peer sent no descriptor where one was due");
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  return Fd(descriptor);
}

}  // namespace sl::kernel

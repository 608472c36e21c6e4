// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/local_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace sl::kernel {
namespace {

constexpr size_t kDescriptorRoom = CMSG_SPACE(kMostDescriptors * sizeof(int));

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
  return MakeDescriptor("socket", [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

// So many are sent and not received yet, between all processes of this user; no event tells when some have been taken.
Status AwaitFewerUnderWay(const Patience& patience) {
  if (RaiseDescriptorLimit()) return {};
  if (patience.cancelled()) return {SL_ERR_ABORTED, "aborted while too many descriptors were under way"};
  if (NowNs() >= patience.deadline_ns) {
    return {SL_ERR_TIMEOUT,
            "too many descriptors are under way between processes of this user; raise the limit "
            "(ulimit -n)"};
  }
  poll(nullptr, 0, 1);
  return {};
}

// This process can take so many descriptors more. `any`: one that it has.
Status FindRoom(int any, size_t count) {
  std::vector<Fd> copies;
  copies.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    SL_ASSIGN(Fd copy, MakeDescriptor("dup", [any] { return fcntl(any, F_DUPFD_CLOEXEC, 0); }));
    copies.push_back(std::move(copy));
  }
  return {};
}

}  // namespace

Result<LocalListener> ListenLocal() {
  SL_ASSIGN(Fd fd, NewSocket());
  LocalListener listener;
  SL_TRY(FillRandom(listener.name));
  sockaddr_un address;
  const socklen_t length = FillAddress(listener.name, &address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return SocketError("bind");
  if (listen(fd.get(), kBacklog) != 0) return SocketError("listen");
  listener.fd = std::move(fd);
  return listener;
}

Result<Fd> ConnectLocal(const SocketName& name, const Patience& patience) {
  sockaddr_un address;
  const socklen_t length = FillAddress(name, &address);
  SL_ASSIGN(Fd fd, NewSocket());
  while (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == ECONNREFUSED) return Gone();
    if (errno != EAGAIN && errno != EINTR) return SocketError("connect");
    if (NowNs() >= patience.deadline_ns || patience.cancelled())
      return Status(SL_ERR_TIMEOUT, "a local listener's queue stays full");
    poll(nullptr, 0, 1);  // EAGAIN: the listener's queue is full, and no event tells when it is not
  }
  // Names can be read by everybody, and are free again when their owner ends.
  if (!IsTrusted(fd)) return Status(SL_ERR_DENIED, "the process that listens under a rank's name runs as another user");
  return fd;
}

Result<Fd> AcceptLocal(const Fd& listener) {
  for (;;) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return Status(SL_ERR_AGAIN);
      if (errno == EMFILE && RaiseDescriptorLimit()) continue;
      return SocketError("accept");
    }
    if (IsTrusted(fd)) return fd;
  }
}

Status SendDescriptors(int fd, std::span<const int> descriptors, const Patience& patience) {
  uint8_t byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[kDescriptorRoom] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  for (;;) {
    if (sendmsg(fd, &message, MSG_NOSIGNAL) == 1) return {};
    if (errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLOUT, patience));
    } else if (errno == ETOOMANYREFS) {
      SL_TRY(AwaitFewerUnderWay(patience));
    } else if (errno != EINTR) {
      return errno == EPIPE || errno == ECONNRESET ? Gone() : SocketError("sendmsg");
    }
  }
}

// All memory and all room is taken before the message is: what came with one that was taken can only be lost.
Result<std::vector<Fd>> ReceiveDescriptors(int fd, size_t count, const Patience& patience) {
  uint8_t byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[kDescriptorRoom] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  std::vector<Fd> descriptors;
  descriptors.reserve((message.msg_controllen - CMSG_LEN(0)) / sizeof(int));
  for (bool has_room = false;;) {
    const ssize_t got = has_room ? recvmsg(fd, &message, MSG_CMSG_CLOEXEC) : recv(fd, &byte, 1, MSG_PEEK);
    if (got == 1 && has_room) break;
    if (got == 1) {
      SL_TRY(FindRoom(fd, count));
      has_room = true;
    } else if (got == 0 || errno == ECONNRESET) {
      return Gone();
    } else if (errno == EAGAIN) {
      SL_TRY(WaitFor(fd, POLLIN, patience));
    } else if (errno != EINTR) {
      return SocketError("recvmsg");
    }
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    const size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < came; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof(number));
      descriptors.emplace_back(number);
    }
  }
  if (descriptors.size() == count) return descriptors;
  if ((message.msg_flags & MSG_CTRUNC) != 0 && descriptors.size() < count) {
    return Status(SL_ERR_LIMIT, "no descriptor is left to take one from a local peer; raise the limit (ulimit -n)");
  }
  return Status(SL_ERR_LINK_CORRUPT, "a local peer sent " + std::to_string(descriptors.size()) + " descriptors where " +
                                         std::to_string(count) + " were due");
}

Status SendDescriptor(int fd, int descriptor, const Patience& patience) {
  return SendDescriptors(fd, {&descriptor, 1}, patience);
}

Result<Fd> ReceiveDescriptor(int fd, const Patience& patience) {
  SL_ASSIGN(std::vector<Fd> descriptors, ReceiveDescriptors(fd, 1, patience));
  return std::move(descriptors[0]);
}

}  // namespace sl::kernel

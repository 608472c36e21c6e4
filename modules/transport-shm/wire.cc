// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-shm/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "sdk/system.h"

namespace sl::transport_shm {
namespace {

constexpr uint32_t kMaxFds = 2;
constexpr int kBacklog = 4096;  // the system cuts it to somaxconn
constexpr char kPrefix[] = "starling-";

socklen_t SocketName(const char name[kNameBytes], sockaddr_un* out) {
  *out = {};
  out->sun_family = AF_UNIX;
  // The first byte stays 0: the abstract name space, which leaves no file behind.
  std::memcpy(out->sun_path + 1, kPrefix, sizeof kPrefix - 1);
  std::memcpy(out->sun_path + sizeof kPrefix, name, kNameBytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + sizeof kPrefix + kNameBytes);
}

Fd NewSocket() {
  return MakeFd([] { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
}

template <typename Message>
Proof Prove(const uint8_t secret[32], const Message& message, const void* extra, size_t extra_bytes) {
  uint8_t text[sizeof(Message) + kNameBytes];
  std::memcpy(text, &message, offsetof(Message, proof));
  std::memcpy(text + offsetof(Message, proof), extra, extra_bytes);
  return MakeProof(secret, text, offsetof(Message, proof) + extra_bytes);
}

// This process can take so many descriptors more. Those of a packet for which there is no room are lost with it.
bool HasRoomFor(uint32_t fd_count, int any) {
  Fd copies[kMaxFds];
  for (uint32_t i = 0; i < fd_count; ++i) {
    copies[i] = MakeFd([any] { return fcntl(any, F_DUPFD_CLOEXEC, 0); });
    if (!copies[i].valid()) return false;
  }
  return true;
}

}  // namespace

Status SocketError(const char* what) {
  const int code = errno;
  if (code == ENOBUFS || code == ENOMEM) {
    return Status(SL_ERR_LIMIT, std::string("unix socket: ") + what + ": the system has no memory for sockets");
  }
  return SystemError("unix socket", what, code);
}

Proof ProveHello(const uint8_t secret[32], const Hello& hello, const char name[kNameBytes]) {
  return Prove(secret, hello, name, kNameBytes);
}

Proof ProveReply(const uint8_t secret[32], const Reply& reply, const Proof& hello) {
  return Prove(secret, reply, hello.data(), hello.size());
}

Result<Fd> MakeListener(char out_name[kNameBytes]) {
  uint8_t random[kNameBytes / 2];
  SL_TRY(FillRandom(random));
  constexpr char kDigits[] = "0123456789abcdef";
  for (uint32_t i = 0; i < kNameBytes; ++i) out_name[i] = kDigits[random[i / 2] >> (i % 2 * 4) & 15];
  Fd listener = NewSocket();
  if (!listener.valid()) return SocketError("socket");
  sockaddr_un name;
  const socklen_t bytes = SocketName(out_name, &name);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0) return SocketError("bind");
  if (listen(listener.get(), kBacklog) != 0) return SocketError("listen");
  return listener;
}

Result<Fd> ConnectTo(const char name[kNameBytes]) {
  Fd fd = NewSocket();
  if (!fd.valid()) return SocketError("socket");
  sockaddr_un address;
  const socklen_t bytes = SocketName(name, &address);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    if (errno == EAGAIN || errno == EINTR) return Status(SL_ERR_AGAIN);
    if (errno == ECONNREFUSED) return Status(SL_ERR_PEER_LOST, "nobody listens any more; the process has gone");
    return SocketError("connect");
  }
  int32_t pid = 0;
  if (!SameUser(fd.get(), &pid)) return Status(SL_ERR_DENIED, "the listener belongs to another user");
  return fd;
}

bool SameUser(int socket, int32_t* out_pid) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  *out_pid = peer.pid;
  return peer.uid == geteuid();
}

Transfer SendPacket(int socket, const void* packet, size_t bytes, const int* fds, uint32_t fd_count) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  iovec part = {const_cast<void*>(packet), bytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes)) return Transfer::kDone;
  // ETOOMANYREFS: this user has too many descriptors in flight; receivers will take some.
  if (sent < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)) {
    return Transfer::kAgain;
  }
  return Transfer::kBroken;
}

Transfer ReceivePacket(int socket, void* packet, size_t bytes, Fd* fds, uint32_t fd_count) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  iovec part = {packet, bytes};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  char first;
  if (recv(socket, &first, sizeof first, MSG_PEEK) > 0 && !HasRoomFor(fd_count, socket)) return Transfer::kShort;
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (received < 0) return errno == EAGAIN || errno == EINTR ? Transfer::kAgain : Transfer::kBroken;
  uint32_t arrived = 0;
  bool surplus = false;
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number;
      std::memcpy(&number, CMSG_DATA(item) + i * sizeof(int), sizeof number);
      Fd fd(number);
      surplus |= arrived == fd_count;
      if (arrived < fd_count) fds[arrived++] = std::move(fd);
    }
  }
  const bool exact = received == static_cast<ssize_t>(bytes) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (exact && !surplus && arrived == fd_count) return Transfer::kDone;
  for (uint32_t i = 0; i < arrived; ++i) fds[i].Close();
  return Transfer::kBroken;
}

}  // namespace sl::transport_shm

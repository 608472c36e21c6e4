// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/net_socket.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "kernel/control/local_socket.h"

namespace sl::kernel {
namespace {

Result<Fd> NewSocket(const NetAddress& address) {
  const int family = address.family == 4 ? AF_INET : AF_INET6;
  return MakeDescriptor("socket", [=] { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

void Set(const Fd& fd, int level, int option, int value) { setsockopt(fd.get(), level, option, &value, sizeof(value)); }

// Frames are small and awaited. While the network is out, they are sent again at a steady pace instead of ever more
// rarely, so that a connection lives on soon after a cable is back. What a kernel does not know, it does without.
void Tune(const Fd& fd) {
  Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
  // Ends the wait for a host that vanished before heartbeats began: 5 s of silence, then three questions.
  Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// Errors of accept that concern the connection that was to be taken, not the listener: see accept(2).
bool IsOfTheConnection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<NetListener> ListenNet(const NetInterface& interface, uint16_t port) {
  NetListener listener;
  NetAddress wanted = interface.address;
  wanted.port = port;
  SL_ASSIGN(listener.fd, NewSocket(wanted));
  if (port != 0) Set(listener.fd, SOL_SOCKET, SO_REUSEADDR, 1);  // its last user may have ended a moment ago
  sockaddr_storage address;
  socklen_t length = ToSocketAddress(wanted, interface.index, &address);
  if (bind(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener.fd.get(), kBacklog) != 0 ||
      getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const Status why = SocketError("listen");
    return Status(why.code(), interface.name + " " + ToText(wanted) + ": " + why.message());
  }
  listener.address = FromSocketAddress(address);
  return listener;
}

Result<Fd> ConnectNet(const NetAddress& address, const NetInterface* interface, const Patience& patience) {
  SL_ASSIGN(Fd fd, NewSocket(address));
  Tune(fd);
  const auto error = [&](const char* call) {
    const Status why = SocketError(call);
    return Status(why.code(), ToText(address) + ": " + why.message());
  };
  sockaddr_storage to;
  const socklen_t length = ToSocketAddress(address, interface != nullptr ? interface->index : 0, &to);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), length) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return error("connect");
  if (const Status waited = WaitFor(fd.get(), POLLOUT, patience); !waited.ok()) {
    return Status(waited.code(), ToText(address) + ": no answer; is it reachable from this host, and not firewalled?");
  }
  socklen_t size = sizeof(errno);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &errno, &size) != 0 || errno != 0) return error("connect");
  return fd;
}

Result<Fd> AcceptNet(const Fd& listener) {
  for (;;) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      Tune(fd);
      return fd;
    }
    if (IsOfTheConnection(errno)) continue;
    if (errno == EAGAIN) return Status(SL_ERR_AGAIN);
    if (errno == EMFILE && RaiseDescriptorLimit()) continue;
    return SocketError("accept");
  }
}

std::string PeerText(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "an unknown place";
  const NetAddress peer = FromSocketAddress(address);
  return peer.valid() ? ToText(peer) : "this host";
}

bool IsNet(int fd) {
  int domain = AF_UNIX;
  socklen_t length = sizeof(domain);
  getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
  return domain != AF_UNIX;
}

}  // namespace sl::kernel

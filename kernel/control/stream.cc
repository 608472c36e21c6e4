// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/stream.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "kernel/events/log.h"
#include "sdk/system.h"

namespace sl::kernel {
namespace {

Status Gone() { return {SL_ERR_PEER_LOST, "the other end of a control connection is gone"}; }

}  // namespace

bool RaiseDescriptorLimit() {
  uint64_t before = 0;
  if (!sl::RaiseDescriptorLimit(&before)) return false;
  Logf(SL_LOG_INFO, "raised this process's limit on descriptors from {} to all that is allowed", before);
  return true;
}

Status EnsureDescriptors(size_t count) {
  std::vector<Fd> spare;
  spare.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    SL_ASSIGN(Fd fd, MakeDescriptor("making a descriptor", [] { return eventfd(0, EFD_CLOEXEC); }));
    spare.push_back(std::move(fd));
  }
  return {};
}

Status SocketError(const char* call) {
  const int error = errno;
  const std::string text = std::string(call) + ": " + std::strerror(error);
  switch (error) {
    case ENOBUFS:
    case ENOMEM:
      return {SL_ERR_LIMIT, text + "; free memory, or raise net.core.wmem_max and net.ipv4.tcp_mem"};
    case EADDRNOTAVAIL:
      return {SL_ERR_LIMIT, text + "; all local ports are in use: widen net.ipv4.ip_local_port_range"};
    case EADDRINUSE:
      return {SL_ERR_LIMIT, text +
                                "; another process has this port, or all local ports are in use: widen "
                                "net.ipv4.ip_local_port_range"};
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT:
      return {SL_ERR_PEER_LOST, text};
    case EPROTO:
      return {SL_ERR_DENIED, text + ": the other end does not encrypt under the key of this job"};
    default:
      return SystemError("", call, error);
  }
}

Status WaitFor(int fd, short events, const Patience& patience) {
  constexpr uint64_t kSliceMs = 50;
  for (;;) {
    if (patience.cancelled()) return {SL_ERR_ABORTED, "aborted while waiting for another rank"};
    const uint64_t now = NowNs();
    if (now >= patience.deadline_ns) return {SL_ERR_TIMEOUT, "another rank did not answer in time"};
    const uint64_t left_ms = std::min<uint64_t>((patience.deadline_ns - now) / 1000000 + 1, kSliceMs);
    pollfd item{fd, events, 0};
    const int ready = poll(&item, 1, static_cast<int>(left_ms));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return SocketError("poll");
  }
}

Status Stream::Encrypt(Tls::Role role, const Secret& key) {
  SL_ASSIGN(tls_, Tls::Begin(fd_.get(), role, key));
  return {};
}

ssize_t Stream::Send(const void* data, size_t bytes) const {
  return tls_ != nullptr ? tls_->Send(data, bytes) : send(fd_.get(), data, bytes, MSG_NOSIGNAL);
}

ssize_t Stream::Receive(void* buffer, size_t bytes) const {
  return tls_ != nullptr ? tls_->Receive(buffer, bytes) : recv(fd_.get(), buffer, bytes, 0);
}

bool Stream::has_ended() const {
  pollfd item{fd_.get(), POLLRDHUP, 0};
  return poll(&item, 1, 0) > 0;
}

Status SendAll(const Stream& stream, std::span<const uint8_t> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t sent = stream.Send(bytes.data(), bytes.size());
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      SL_TRY(WaitFor(stream.fd(), stream.awaits_input() ? POLLIN : POLLOUT, patience));
    } else if (sent < 0 && errno != EINTR) {
      return errno == EPIPE || errno == ECONNRESET ? Gone() : SocketError("send");
    }
  }
  return {};
}

Status ReceiveAll(const Stream& stream, std::span<uint8_t> bytes, const Patience& patience) {
  while (!bytes.empty()) {
    const ssize_t got = stream.Receive(bytes.data(), bytes.size());
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return Gone();
    } else if (errno == EAGAIN) {
      SL_TRY(WaitFor(stream.fd(), POLLIN, patience));
    } else if (errno != EINTR) {
      return SocketError("recv");
    }
  }
  return {};
}

}  // namespace sl::kernel

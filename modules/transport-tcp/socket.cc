// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/socket.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "sdk/system.h"

namespace sl::transport_tcp {
namespace {

constexpr int kBacklog = 4096;  // the system cuts it to net.core.somaxconn
constexpr uint64_t kSmallestBuffer = 256 << 10;
constexpr uint64_t kLargestBuffer = 1 << 30;

Fd NewStream(uint8_t family) {
  return MakeFd([family] {
    return socket(family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  });
}

bool SetNumber(int socket, int level, int name, int value) {
  return setsockopt(socket, level, name, &value, sizeof value) == 0;
}

// The largest buffer that the system gives a stream by itself (net.ipv4.tcp_rmem and tcp_wmem, which also serve IPv6).
uint64_t LargestAutomatic() {
  uint64_t smallest = UINT64_MAX;
  for (const char* path : {"/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem"}) {
    std::ifstream file(path);
    uint64_t least = 0, usual = 0, most = 0;
    if (file >> least >> usual >> most) smallest = std::min(smallest, most);
  }
  return smallest;
}

// A fixed size ends the system's own sizing, so it is set only where that would not reach.
void SetBuffers(int socket, const Interface& interface, const Settings& settings, std::string* out_refused) {
  uint64_t bytes = settings.socket_buffer_bytes;
  if (bytes == 0) {
    static const uint64_t largest_automatic = LargestAutomatic();
    bytes = WantedBufferBytes(interface, settings);
    if (bytes <= largest_automatic / 2) return;  // half of it is for the system's own records
  }
  const int wanted = static_cast<int>(std::min(bytes, kLargestBuffer));
  for (const int name : {SO_SNDBUF, SO_RCVBUF}) {
    int got = 0;
    socklen_t got_bytes = sizeof got;
    SetNumber(socket, SOL_SOCKET, name, wanted);
    if (getsockopt(socket, SOL_SOCKET, name, &got, &got_bytes) == 0 && got / 2 < wanted) {
      *out_refused += std::string("; a buffer of ") + std::to_string(got / 2) + " bytes instead of " +
                      std::to_string(wanted) + ": raise net.core." + (name == SO_SNDBUF ? "wmem_max" : "rmem_max");
    }
  }
}

void SetPatience(int socket, const Settings& settings) {
  SetNumber(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (settings.peer_timeout_ns == 0) return;
  // While nothing is under way only keep-alive can tell. It counts in seconds: a first question after one, then one a
  // second.
  const auto seconds = static_cast<int>((settings.peer_timeout_ns + 999'999'999) / 1'000'000'000);
  SetNumber(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  SetNumber(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  SetNumber(socket, IPPROTO_TCP, TCP_KEEPCNT, std::clamp(seconds - 1, 1, 127));
}

// Of bind() to an interface's own address, the port being free.
Status BindError(const std::string& what, int code) {
  if (code != EADDRNOTAVAIL) return SocketError(what, code);
  return Status(SL_ERR_LINK_DOWN, what + ": the interface has lost this address, or has not confirmed it yet");
}

}  // namespace

Status SocketError(const std::string& what, int code) {
  switch (code) {
    case EMFILE:
    case ENFILE:
      return Status(SL_ERR_LIMIT, WithRemedy(what + ": " + std::strerror(code), "", code));
    case EADDRINUSE:
    case EADDRNOTAVAIL:
      return Status(SL_ERR_LIMIT, what + ": no local port is left (" + std::strerror(code) +
                                      "); widen net.ipv4.ip_local_port_range, or the option listen_ports");
    case ENOBUFS:
    case ENOMEM:
      return Status(SL_ERR_LIMIT, what +
                                      ": the system has no memory for sockets; raise net.ipv4.tcp_mem, or use "
                                      "smaller socket_buffer_bytes");
    case ECONNREFUSED:
      return Status(SL_ERR_PEER_LOST, what + ": nobody listens there any more (" + std::strerror(code) + ")");
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return Status(SL_ERR_LINK_DOWN, what + ": " + std::strerror(code));
    default:
      return Status(SL_ERR_SYSTEM, WithRemedy(what + ": " + std::strerror(code), "it", code));
  }
}

Result<Nonce> FreshNonce() {
  Nonce nonce;
  SL_TRY(FillRandom(nonce));
  return nonce;
}

Result<Fd> Listen(const Interface& interface, const Settings& settings, uint16_t* out_port, std::string* out_refused) {
  const std::string where = "cannot listen on " + interface.name + " " + interface.IpText();
  int code = EADDRINUSE;
  for (uint32_t port = settings.first_listen_port; port <= settings.last_listen_port; ++port) {
    Fd listener = NewStream(interface.family);
    if (!listener.valid()) return SocketError(where, errno);
    sockaddr_storage name;
    socklen_t bytes =
        ToSocketAddress(interface.family, interface.ip, static_cast<uint16_t>(port), interface.index, &name);
    if (interface.family == 6) SetNumber(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    out_refused->clear();
    TuneStream(listener.get(), interface, settings,
               out_refused);  // buffers before listen(): they set the window's scale
    if (bind(listener.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0 || listen(listener.get(), kBacklog) != 0) {
      code = errno;
      if (code == EADDRINUSE) continue;
      break;
    }
    if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return SocketError(where, errno);
    *out_port = ntohs(interface.family == 4 ? reinterpret_cast<sockaddr_in*>(&name)->sin_port
                                            : reinterpret_cast<sockaddr_in6*>(&name)->sin6_port);
    return listener;
  }
  return BindError(where, code);
}

Result<Fd> StartConnect(const Interface& from, const Settings& settings, const Ip& ip, uint16_t port) {
  Fd stream = NewStream(from.family);
  if (!stream.valid()) return SocketError("socket", errno);
  // The source port is chosen with the destination, so that one port serves many destinations.
  SetNumber(stream.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  sockaddr_storage name;
  const socklen_t bytes = ToSocketAddress(from.family, from.ip, 0, from.index, &name);
  if (bind(stream.get(), reinterpret_cast<sockaddr*>(&name), bytes) != 0) {
    return BindError("bind to " + from.name + " " + from.IpText(), errno);
  }
  std::string refused;  // said once, of the listener
  TuneStream(stream.get(), from, settings, &refused);
  const int code = ConnectProgress(stream.get(), from.family, ip, port, from.index);
  if (code != 0 && code != EINPROGRESS) return SocketError("connect", code);
  return stream;
}

int ConnectProgress(int socket, uint8_t family, const Ip& ip, uint16_t port, uint32_t scope) {
  sockaddr_storage name;
  const socklen_t bytes = ToSocketAddress(family, ip, port, scope, &name);
  if (connect(socket, reinterpret_cast<sockaddr*>(&name), bytes) == 0 || errno == EISCONN) return 0;
  return errno == EALREADY || errno == EINTR ? EINPROGRESS : errno;
}

void AbortStream(int socket) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  if (connect(socket, &nobody, sizeof nobody) != 0) shutdown(socket, SHUT_RDWR);
}

void TuneStream(int socket, const Interface& interface, const Settings& settings, std::string* out_refused) {
  SetNumber(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetPatience(socket, settings);
  SetBuffers(socket, interface, settings, out_refused);
  const std::string& control = settings.congestion_control;
  if (!control.empty() &&
      setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control.c_str(), static_cast<socklen_t>(control.size())) != 0) {
    *out_refused += "; congestion control " + control +
                    ": load its kernel module, and allow it in "
                    "net.ipv4.tcp_allowed_congestion_control";
  }
  if (settings.traffic_class != 0) {
    const bool set = interface.family == 4 ? SetNumber(socket, IPPROTO_IP, IP_TOS, settings.traffic_class)
                                           : SetNumber(socket, IPPROTO_IPV6, IPV6_TCLASS, settings.traffic_class);
    if (!set) *out_refused += "; traffic class " + std::to_string(settings.traffic_class);
  }
  if (settings.busy_poll_us != 0 && !SetNumber(socket, SOL_SOCKET, SO_BUSY_POLL, settings.busy_poll_us)) {
    *out_refused += "; busy polling: it needs CAP_NET_ADMIN, or net.core.busy_read for all sockets";
  }
  if (settings.zerocopy_minimum_bytes != 0 && !SetNumber(socket, SOL_SOCKET, SO_ZEROCOPY, 1)) {
    *out_refused += "; MSG_ZEROCOPY: it needs Linux 4.14";
  }
}

// Without the option MSG_ZEROCOPY is ignored, and no notice ever tells that a source is free.
uint64_t ZeroCopyBytes(int socket, const Settings& settings) {
  int is_on = 0;
  socklen_t bytes = sizeof is_on;
  if (settings.zerocopy_minimum_bytes == 0) return 0;
  const bool known = getsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &is_on, &bytes) == 0;
  return known && is_on != 0 ? settings.zerocopy_minimum_bytes : 0;
}

uint64_t BytesPerSecond(const Interface& interface) {
  const uint64_t megabits = interface.megabits_per_second != 0 ? interface.megabits_per_second : kAssumedMegabits;
  return megabits * 125'000;
}

uint64_t WantedBufferBytes(const Interface& interface, const Settings& settings) {
  const double bytes = static_cast<double>(BytesPerSecond(interface)) * 2e-9 * static_cast<double>(settings.latency_ns);
  return std::clamp(static_cast<uint64_t>(bytes), kSmallestBuffer, kLargestBuffer);
}

StreamHealth ReadHealth(int socket) {
  tcp_info info = {};
  socklen_t bytes = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  StreamHealth health;
  // With packets under way the system repeats them; with none, because the peer's window is closed, it asks whether
  // the window has opened, and a peer that is alive says no.
  health.outstanding = info.tcpi_unacked != 0 || info.tcpi_notsent_bytes != 0;
  health.unanswered = info.tcpi_unacked != 0 ? info.tcpi_retransmits != 0 : info.tcpi_probes > 1;
  health.acked_bytes = info.tcpi_bytes_acked;
  health.silent_ns = uint64_t{info.tcpi_last_ack_recv} * 1'000'000;
  return health;
}

}  // namespace sl::transport_tcp

// SPDX-License-Identifier: Apache-2.0
//
// Addresses at which rank 0 listens and the others knock.
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "tools/launch/handout.h"

namespace sl::launch {
namespace {

constexpr int kBacklog = 1024;

uint16_t PortOf(const Door& door) {
  if (door.address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&door.address)->sin_port);
  if (door.address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&door.address)->sin6_port);
  return 0;
}

void SetPort(Door& door, uint16_t port) {
  if (door.address.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&door.address)->sin_port = htons(port);
  if (door.address.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&door.address)->sin6_port = htons(port);
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
}

std::string TextOf(const Door& door) {
  if (door.address.ss_family == AF_UNIX) return "the socket";
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&door.address), door.bytes, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return std::string(host) + " port " + port;
}

// The address to bind: of a name that leads to loopback only, all addresses of its family.
Door Bindable(const Door& door) {
  Door result = door;
  if (!door.any) return result;
  if (door.address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&result.address)->sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    reinterpret_cast<sockaddr_in6*>(&result.address)->sin6_addr = in6addr_any;
  }
  return result;
}

Fd OpenDoor(const Door& asked, std::string& problem) {
  const Door door = Bindable(asked);
  Fd listener(socket(door.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  if (door.address.ss_family != AF_UNIX) setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (door.address.ss_family == AF_INET6) setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (listener.valid() && bind(listener.get(), reinterpret_cast<const sockaddr*>(&door.address), door.bytes) == 0 &&
      listen(listener.get(), kBacklog) == 0) {
    return listener;
  }
  const int error = errno;
  problem = TextOf(door) + ": " + std::strerror(error);
  if (error == EADDRINUSE) problem += ": is another process rank 0 too, or another job there?";
  if (error == EADDRNOTAVAIL) problem = TextOf(door) + " is not on this host, where rank 0 runs";
  errno = error;
  return Fd();
}

}  // namespace

Doors LocalDoor(const std::string& name) {
  Door door{};
  auto* address = reinterpret_cast<sockaddr_un*>(&door.address);
  address->sun_family = AF_UNIX;
  // Abstract: after the zero byte, not in the file system.
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), length);
  door.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return {door};
}

Doors NetworkDoors(const std::string& host, uint16_t port, uint16_t ports, std::string& problem) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) {
    problem = "the name " + host +
              " is not known here: " + (error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
    return {};
  }
  Doors first;
  bool loopback = true;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    Door door{};
    std::memcpy(&door.address, each->ai_addr, each->ai_addrlen);
    door.bytes = each->ai_addrlen;
    loopback = loopback && IsLoopback(each->ai_addr);
    first.push_back(door);
  }
  freeaddrinfo(found);
  // Debian gives a host's own name to 127.0.1.1; other hosts know it by another address.
  const bool any = loopback && host != "localhost" && host.compare(0, 4, "127.") != 0 && host != "::1";
  Doors doors;
  for (int offset = 0; offset < ports; ++offset) {
    for (Door door : first) {
      SetPort(door, static_cast<uint16_t>(port + offset));
      door.any = any;
      doors.push_back(door);
    }
  }
  return doors;
}

std::vector<Fd> OpenDoors(const Doors& doors, std::string& problem) {
  std::vector<Fd> open;
  bool taken = false;
  for (size_t i = 0; i < doors.size(); ++i) {
    if (!taken) {
      Fd listener = OpenDoor(doors[i], problem);
      taken = !listener.valid() && errno == EADDRINUSE;
      if (listener.valid()) open.push_back(std::move(listener));
    }
    if (i + 1 < doors.size() && PortOf(doors[i + 1]) == PortOf(doors[i])) continue;
    // That was the port's last address. Ranks that look at only one of them must find us.
    if (!taken && !open.empty()) return open;
    open.clear();
    taken = false;
  }
  return open;
}

}  // namespace sl::launch

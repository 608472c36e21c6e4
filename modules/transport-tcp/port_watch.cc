// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/port_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sdk/system.h"

namespace sl::transport_tcp {

PortWatch::PortWatch() {
  Fd fd = MakeFd([] { return socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE); });
  sockaddr_nl name = {};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK;
  if (fd.valid() && bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0) socket_ = std::move(fd);
}

void PortWatch::Read(const std::function<void(uint32_t index, bool up)>& tell) {
  if (!socket_.valid()) return;
  for (;;) {
    alignas(nlmsghdr) char buffer[16384];
    sockaddr_nl from = {};
    socklen_t from_bytes = sizeof from;
    const ssize_t got = recvfrom(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC,
                                 reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (got < 0 && errno != ENOBUFS) return;
    if (got < 0 || static_cast<size_t>(got) > sizeof buffer) {
      tell(0, false);
      continue;
    }
    if (from.nl_pid != 0) continue;  // not the kernel's
    auto left = static_cast<uint32_t>(got);
    for (auto* item = reinterpret_cast<nlmsghdr*>(buffer); NLMSG_OK(item, left); item = NLMSG_NEXT(item, left)) {
      if (item->nlmsg_type != RTM_NEWLINK && item->nlmsg_type != RTM_DELLINK) continue;
      if (item->nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) continue;
      const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(item));
      const bool up =
          item->nlmsg_type == RTM_NEWLINK && (link->ifi_flags & IFF_UP) != 0 && (link->ifi_flags & IFF_RUNNING) != 0;
      tell(static_cast<uint32_t>(link->ifi_index), up);
    }
  }
}

bool IsRunning(const char* name) {
  const Fd fd = MakeFd([] { return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); });
  ifreq request = {};
  std::strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
  if (!fd.valid() || ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return false;
  constexpr short kBoth = static_cast<short>(IFF_UP) | static_cast<short>(IFF_RUNNING);
  return (request.ifr_flags & kBoth) == kBoth;
}

}  // namespace sl::transport_tcp

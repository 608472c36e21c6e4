// SPDX-License-Identifier: Apache-2.0
#include "modules/transport-tcp/zerocopy.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

// After <time.h>, whose timespec it needs.
#include <linux/errqueue.h>

#include <cstring>

namespace sl::transport_tcp {

bool ZeroCopies::Finish(uint32_t first, uint32_t last) {
  // The low 32 bits of a number tell the rest: fewer than 2^31 calls are under way.
  const auto widen = [this](uint32_t low) {
    return finished_ + static_cast<uint32_t>(low - static_cast<uint32_t>(finished_)) + 1;
  };
  const Range range = {widen(first), widen(last)};
  if (range.first > range.last || range.last > begun_) return true;  // not ours
  if (range.first != finished_ + 1) {
    if (early_count_ == early_.size()) return false;
    early_[early_count_++] = range;
    return true;
  }
  finished_ = range.last;
  for (uint32_t i = 0; i < early_count_;) {
    if (early_[i].first != finished_ + 1) {
      ++i;
      continue;
    }
    finished_ = early_[i].last;
    early_[i] = early_[--early_count_];
    i = 0;
  }
  return true;
}

bool ZeroCopies::Read(int socket, uint64_t* copied) {
  while (outstanding()) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(sock_extended_err) + sizeof(sockaddr_in6))];
    msghdr message = {};
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return true;
    for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr; item = CMSG_NXTHDR(&message, item)) {
      if (item->cmsg_len < CMSG_LEN(sizeof(sock_extended_err))) continue;
      sock_extended_err notice;
      std::memcpy(&notice, CMSG_DATA(item), sizeof notice);
      if (notice.ee_origin != SO_EE_ORIGIN_ZEROCOPY || notice.ee_errno != 0) continue;
      if ((notice.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) *copied += notice.ee_data - notice.ee_info + 1;
      if (!Finish(notice.ee_info, notice.ee_data)) return false;
    }
  }
  return true;
}

}  // namespace sl::transport_tcp

// SPDX-License-Identifier: Apache-2.0
//
// Sockets between processes of one network namespace: abstract AF_UNIX streams, close-on-exec, non-blocking, no
// SIGPIPE, and only between processes of the same user (or root). Descriptors travel here too. Every wait has a
// deadline.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernel/control/stream.h"

namespace sl::kernel {

// A listener's name: random, unguessable, without meaning.
using SocketName = std::array<uint8_t, 16>;

struct LocalListener {
  Fd fd;
  SocketName name;
};

// Connections that may wait at a listener: as many as ranks of a large job arrive at once; the system may cut it down
// (net.core.somaxconn).
constexpr int kBacklog = 4096;

Result<LocalListener> ListenLocal();
// SL_ERR_PEER_LOST when nobody listens under that name any more, SL_ERR_DENIED when another user does.
Result<Fd> ConnectLocal(const SocketName& name, const Patience& patience);
// The next connection of a process of the same user; others are closed unread. SL_ERR_AGAIN when none waits.
Result<Fd> AcceptLocal(const Fd& listener);

// One descriptor with one byte, or up to kMostDescriptors with one. Where the system lets no more of them be under way,
// or this process is short of them, its limit is raised to all that is allowed; then who sends waits.
// returns: SL_ERR_PEER_LOST | SL_ERR_TIMEOUT | SL_ERR_LIMIT no descriptor is left to take one | SL_ERR_LINK_CORRUPT
// another number of them came
constexpr size_t kMostDescriptors = 253;  // SCM_MAX_FD of Linux
Status SendDescriptors(int fd, std::span<const int> descriptors, const Patience& patience);
Result<std::vector<Fd>> ReceiveDescriptors(int fd, size_t count, const Patience& patience);
Status SendDescriptor(int fd, int descriptor, const Patience& patience);
Result<Fd> ReceiveDescriptor(int fd, const Patience& patience);

}  // namespace sl::kernel

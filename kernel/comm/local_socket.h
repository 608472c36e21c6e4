// SPDX-License-Identifier: Apache-2.0
//
// Sockets between processes of one host: abstract AF_UNIX streams, close-on-exec, non-blocking, no SIGPIPE, and only
// between processes of the same user (or root). Descriptors travel here too. Every wait has a deadline.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "kernel/comm/fd.h"
#include "sdk/status.h"

namespace sl::kernel {

// A listener's name: random, unguessable, without meaning.
using SocketName = std::array<uint8_t, 16>;

struct Listener {
  Fd fd;
  SocketName name;
};

// CLOCK_MONOTONIC now, in ns.
uint64_t NowNs();

// How long a caller is ready to wait: until a deadline, or until somebody sets `cancel` (looked at every 50 ms).
struct Patience {
  uint64_t deadline_ns;
  const std::atomic<uint64_t>* cancel_ns = nullptr;  // from this moment on waiting is pointless; others may set it

  bool cancelled() const { return cancel_ns != nullptr && NowNs() >= cancel_ns->load(std::memory_order_relaxed); }
};

// Fills `bytes` from the kernel's random source.
void FillRandom(std::span<uint8_t> bytes);

Result<Listener> Listen();
// SL_ERR_PEER_LOST when nobody listens under that name any more, SL_ERR_DENIED when another user does.
Result<Fd> Connect(const SocketName& name, const Patience& patience);
// The next connection of a process of the same user; others are closed unread. SL_ERR_AGAIN when none waits.
Result<Fd> Accept(const Fd& listener);

// Waits until `events` (POLLIN, POLLOUT) are there. SL_OK | SL_ERR_TIMEOUT | SL_ERR_ABORTED.
Status WaitFor(int fd, short events, const Patience& patience);

// Whole buffers, or an error. SL_ERR_PEER_LOST when the other end is gone.
Status SendAll(int fd, std::span<const uint8_t> bytes, const Patience& patience);
Status ReceiveAll(int fd, std::span<uint8_t> bytes, const Patience& patience);

// One descriptor with one byte.
Status SendDescriptor(int fd, int descriptor, const Patience& patience);
Result<Fd> ReceiveDescriptor(int fd, const Patience& patience);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Bytes over a connected socket, whatever its kind: whole buffers or an error, and every wait has an end.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>

#include "kernel/comm/fd.h"
#include "sdk/status.h"

namespace sl::kernel {

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

// What errno says of `call`: SL_ERR_LIMIT with the remedy when descriptors, ports or buffers are used up,
// SL_ERR_PEER_LOST when the other end is gone or cannot be reached, else SL_ERR_SYSTEM.
Status SocketError(const char* call);

// Called when EMFILE was met: raises the soft limit on descriptors to the hard one and says so in the log; false when
// there is nothing to raise.
bool RaiseDescriptorLimit();

// A descriptor that `make` returns, as system calls do: -1 and errno.
template <typename Make>
Result<Fd> MakeDescriptor(const char* call, Make make) {
  Fd fd(make());
  if (!fd.valid() && errno == EMFILE && RaiseDescriptorLimit()) fd = Fd(make());
  if (!fd.valid()) return SocketError(call);
  return fd;
}

// Waits until `events` (POLLIN, POLLOUT) are there. SL_OK | SL_ERR_TIMEOUT | SL_ERR_ABORTED.
Status WaitFor(int fd, short events, const Patience& patience);

// SL_ERR_PEER_LOST when the other end is gone.
Status SendAll(int fd, std::span<const uint8_t> bytes, const Patience& patience);
Status ReceiveAll(int fd, std::span<uint8_t> bytes, const Patience& patience);

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Bytes over a connected socket, whatever its kind, encrypted or not: whole buffers or an error, and every wait has an
// end.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernel/control/tls.h"
#include "sdk/clock.h"
#include "sdk/fd.h"
#include "sdk/status.h"
#include "sdk/system.h"

namespace sl::kernel {

// How long a caller is ready to wait: until a deadline, or until somebody sets `cancel` (looked at every 50 ms).
struct Patience {
  uint64_t deadline_ns;
  const std::atomic<uint64_t>* cancel_ns = nullptr;       // from this moment on waiting is pointless; others may set it
  const std::atomic<uint64_t>* also_cancel_ns = nullptr;  // likewise

  bool cancelled() const { return IsOver(cancel_ns) || IsOver(also_cancel_ns); }

 private:
  static bool IsOver(const std::atomic<uint64_t>* since_ns) {
    return since_ns != nullptr && NowNs() >= since_ns->load(std::memory_order_relaxed);
  }
};

// What errno says of `call`: SL_ERR_LIMIT with the remedy when descriptors, ports or buffers are used up,
// SL_ERR_PEER_LOST when the other end is gone or cannot be reached, else SL_ERR_SYSTEM.
Status SocketError(const char* call);

// As sl::RaiseDescriptorLimit, and says so in the log.
bool RaiseDescriptorLimit();

// So many can be had now; else the soft limit is raised. For what asks libraries, which do not say that they lack some.
Status EnsureDescriptors(size_t count);

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

// A connected, non-blocking socket, and what its bytes go through.
class Stream {
 public:
  Stream() = default;
  explicit Stream(Fd fd) : fd_(std::move(fd)) {}

  // From here on under `key`, on both ends.   returns: SL_ERR_NOT_FOUND no OpenSSL here
  Status Encrypt(Tls::Role role, const Secret& key);

  // As send(2) and recv(2), without a signal.   thread: [any], one at a time each
  ssize_t Send(const void* data, size_t bytes) const;
  ssize_t Receive(void* buffer, size_t bytes) const;
  // Whether something has come already that the socket does not show any more.
  bool has_input() const { return tls_ != nullptr && tls_->has_input(); }
  // Whether the last Send, which sent less than it was given, waits for something to be received, not for room.
  bool awaits_input() const { return tls_ != nullptr && tls_->awaits_input(); }
  // Whether the other end has hung up, as far as this end knows.
  bool has_ended() const;
  // To wait for, to ask for its peer; not to read or write.
  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }

 private:
  Fd fd_;
  std::unique_ptr<Tls> tls_;
};

// returns: SL_ERR_PEER_LOST the other end is gone | SL_ERR_DENIED it does not have the key | …
Status SendAll(const Stream& stream, std::span<const uint8_t> bytes, const Patience& patience);
Status ReceiveAll(const Stream& stream, std::span<uint8_t> bytes, const Patience& patience);

}  // namespace sl::kernel

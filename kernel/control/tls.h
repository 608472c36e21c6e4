// SPDX-License-Identifier: Apache-2.0
//
// One end of an encrypted connection: TLS 1.3 (RFC 8446) under a key that both ends have already, with an ephemeral
// Diffie-Hellman exchange, so that who learns the key later can read nothing that was said before. No certificates.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "kernel/control/proof.h"
#include "sdk/status.h"

// OpenSSL's, whose headers stay inside.
struct bio_method_st;
struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;

namespace sl::kernel {

struct OpenSsl;

class Tls {
 public:
  // The end that spoke first, and the other one.
  enum class Role { kCaller, kCalled };

  // Over `fd`, a non-blocking socket that outlives this. The caller's first message leaves at once; the rest of the
  // handshake happens inside the first calls of Send and Receive.
  // returns: SL_ERR_NOT_FOUND no OpenSSL here
  static Result<std::unique_ptr<Tls>> Begin(int fd, Role role, const Secret& key);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // Like send(2) and recv(2): a number of bytes, 0 at the end of the stream, or -1 and errno: EAGAIN, EPROTO when the
  // other end does not have the key or the bytes were changed on the way. After an EAGAIN of Send the same bytes come
  // first in the next call.   thread: [any]
  ssize_t Send(const void* data, size_t bytes);
  ssize_t Receive(void* buffer, size_t bytes);
  // Whether Receive has something to give that the socket does not show.
  bool has_input();
  // Whether the last Send waits for something to be received, not for room.
  bool awaits_input() const { return awaits_input_; }

 private:
  Tls(const OpenSsl* open, int fd, const Secret& key) : open_(open), fd_(fd), key_(key) {}
  ssize_t Outcome(int result);
  ssl_session_st* NewSession(ssl_st* ssl) const;
  static Result<ssl_ctx_st*> Context();
  static bio_method_st* SocketMethod();
  friend struct TlsCallbacks;

  const OpenSsl* open_;
  const int fd_;
  const Secret key_;
  std::mutex mutex_;
  ssl_st* ssl_ = nullptr;  // guarded by mutex_
  std::atomic<bool> awaits_input_{false};
};

}  // namespace sl::kernel

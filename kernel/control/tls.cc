// SPDX-License-Identifier: Apache-2.0
#include "kernel/control/tls.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "kernel/control/openssl.h"

namespace sl::kernel {
namespace {

constexpr unsigned char kIdentity[] = "starling";              // which key is clear from the connection
constexpr unsigned char kCipher[2] = {0x13, 0x01};             // TLS_AES_128_GCM_SHA256, by its number on the wire
constexpr const char* kCipherName = "TLS_AES_128_GCM_SHA256";  // the same, by name

int Bounded(size_t bytes) { return static_cast<int>(std::min<size_t>(bytes, INT_MAX)); }

}  // namespace

// What OpenSSL calls: C functions that find the object again.
struct TlsCallbacks {
  static const OpenSsl& Library() { return *OpenSsl::Get().value(); }
  static Tls* Of(SSL* ssl) { return static_cast<Tls*>(Library().SSL_get_ex_data(ssl, 0)); }

  static int FindSession(SSL* ssl, const unsigned char*, size_t, SSL_SESSION** out_session) {
    *out_session = Of(ssl)->NewSession(ssl);
    return *out_session != nullptr;
  }
  static int UseSession(SSL* ssl, const EVP_MD*, const unsigned char** out_id, size_t* out_length,
                        SSL_SESSION** out_session) {
    *out_id = kIdentity;
    *out_length = sizeof(kIdentity) - 1;
    return FindSession(ssl, nullptr, 0, out_session);
  }

  // OpenSSL's own socket functions would raise SIGPIPE in somebody else's process.
  static int Write(BIO* bio, const char* data, int bytes) {
    return Transfer(bio, BIO_FLAGS_WRITE,
                    [&](int fd) { return send(fd, data, static_cast<size_t>(bytes), MSG_NOSIGNAL); });
  }
  static int Read(BIO* bio, char* buffer, int bytes) {
    return Transfer(bio, BIO_FLAGS_READ, [&](int fd) { return recv(fd, buffer, static_cast<size_t>(bytes), 0); });
  }
  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

 private:
  template <typename Call>
  static int Transfer(BIO* bio, int direction, Call call) {
    const int fd = static_cast<Tls*>(Library().BIO_get_data(bio))->fd_;
    Library().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    ssize_t done;
    do {
      done = call(fd);
    } while (done < 0 && errno == EINTR);
    if (done < 0 && errno == EAGAIN) Library().BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
    return static_cast<int>(done);
  }
};

// Made once for the process, and kept.
Result<SSL_CTX*> Tls::Context() {
  static const Result<SSL_CTX*> made = []() -> Result<SSL_CTX*> {
    SL_ASSIGN(const OpenSsl* const open, OpenSsl::Get());
    SSL_CTX* const context = open->SSL_CTX_new(open->TLS_method());
    if (context == nullptr) return Status(SL_ERR_SYSTEM, "OpenSSL cannot make a context");
    open->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
    open->SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                       nullptr);
    open->SSL_CTX_set_ciphersuites(context, kCipherName);
    open->SSL_CTX_set_num_tickets(context, 0);
    open->SSL_CTX_set_psk_find_session_callback(context, TlsCallbacks::FindSession);
    open->SSL_CTX_set_psk_use_session_callback(context, TlsCallbacks::UseSession);
    return context;
  }();
  return made;
}

BIO_METHOD* Tls::SocketMethod() {
  static BIO_METHOD* const made = [] {
    const OpenSsl& open = TlsCallbacks::Library();
    BIO_METHOD* const method = open.BIO_meth_new(open.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "starling socket");
    open.BIO_meth_set_write(method, TlsCallbacks::Write);
    open.BIO_meth_set_read(method, TlsCallbacks::Read);
    open.BIO_meth_set_ctrl(method, TlsCallbacks::Control);
    return method;
  }();
  return made;
}

Result<std::unique_ptr<Tls>> Tls::Begin(int fd, Role role, const Secret& key) {
  SL_ASSIGN(SSL_CTX* const context, Context());
  SL_ASSIGN(const OpenSsl* const open, OpenSsl::Get());
  std::unique_ptr<Tls> tls(new Tls(open, fd, key));
  tls->ssl_ = open->SSL_new(context);
  BIO* const bio = tls->ssl_ == nullptr ? nullptr : open->BIO_new(SocketMethod());
  if (bio == nullptr) return Status(SL_ERR_MEMORY, "OpenSSL cannot make a connection");
  open->BIO_set_data(bio, tls.get());
  open->BIO_set_init(bio, 1);
  open->SSL_set_bio(tls->ssl_, bio, bio);
  open->SSL_set_ex_data(tls->ssl_, 0, tls.get());
  if (role == Role::kCaller) {
    // No authority is trusted, so that nobody can answer with a certificate instead of the key.
    open->SSL_set_verify(tls->ssl_, SSL_VERIFY_PEER, nullptr);
    open->SSL_set_connect_state(tls->ssl_);
    open->SSL_do_handshake(tls->ssl_);  // waits for an answer, or will say again what went wrong
  } else {
    open->SSL_set_accept_state(tls->ssl_);
  }
  return tls;
}

Tls::~Tls() { open_->SSL_free(ssl_); }

SSL_SESSION* Tls::NewSession(SSL* ssl) const {
  const SSL_CIPHER* const cipher = open_->SSL_CIPHER_find(ssl, kCipher);
  SSL_SESSION* const session = open_->SSL_SESSION_new();
  if (session == nullptr || cipher == nullptr) return nullptr;
  open_->SSL_SESSION_set1_master_key(session, key_.data(), key_.size());
  open_->SSL_SESSION_set_cipher(session, cipher);
  open_->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

ssize_t Tls::Outcome(int result) {
  if (result > 0) return result;
  const int system_error = errno;
  switch (open_->SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      // A stream that ends without a farewell of TLS: frames say themselves whether one was due.
      if (result == 0 || system_error == 0) return 0;
      errno = system_error;
      return -1;
    default:
      errno = EPROTO;
      return -1;
  }
}

ssize_t Tls::Send(const void* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  open_->ERR_clear_error();
  errno = 0;
  const int result = open_->SSL_write(ssl_, data, Bounded(bytes));
  awaits_input_ = open_->SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ;
  const ssize_t sent = Outcome(result);
  if (sent != 0) return sent;
  errno = EPIPE;  // the end of the stream
  return -1;
}

ssize_t Tls::Receive(void* buffer, size_t bytes) {
  std::lock_guard lock(mutex_);
  open_->ERR_clear_error();
  errno = 0;
  return Outcome(open_->SSL_read(ssl_, buffer, Bounded(bytes)));
}

bool Tls::has_input() {
  std::lock_guard lock(mutex_);
  return open_->SSL_has_pending(ssl_) != 0;
}

}  // namespace sl::kernel

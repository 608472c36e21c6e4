// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL 3, opened when a profile asks for encryption: whoever does not, needs no such library.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "sdk/status.h"

namespace sl::kernel {

// What is called of it; libcrypto's functions are found behind libssl's.
// clang-format off
#define SL_OPENSSL_FUNCTIONS(X)                                                                                        \
  X(TLS_method) X(SSL_CTX_new) X(SSL_CTX_ctrl) X(SSL_CTX_set_ciphersuites) X(SSL_CTX_set_num_tickets)                  \
  X(SSL_CTX_set_psk_find_session_callback) X(SSL_CTX_set_psk_use_session_callback)                                     \
  X(SSL_new) X(SSL_free) X(SSL_set_bio) X(SSL_set_verify) X(SSL_set_ex_data) X(SSL_get_ex_data)                        \
  X(SSL_set_connect_state) X(SSL_set_accept_state) X(SSL_do_handshake) X(SSL_read) X(SSL_write) X(SSL_get_error)       \
  X(SSL_has_pending)                                                                                                   \
  X(SSL_CIPHER_find) X(SSL_SESSION_new) X(SSL_SESSION_set1_master_key) X(SSL_SESSION_set_cipher)                       \
  X(SSL_SESSION_set_protocol_version) X(ERR_clear_error)                                                               \
  X(BIO_new) X(BIO_get_new_index) X(BIO_meth_new) X(BIO_meth_set_read) X(BIO_meth_set_write) X(BIO_meth_set_ctrl)      \
  X(BIO_set_data) X(BIO_get_data) X(BIO_set_init) X(BIO_set_flags) X(BIO_clear_flags)
// clang-format on

struct OpenSsl {
#define SL_DECLARE(name) decltype(&::name) name = nullptr;
  SL_OPENSSL_FUNCTIONS(SL_DECLARE)
#undef SL_DECLARE

  // Opened by the first call, and kept.   thread: [any]
  // returns: SL_ERR_NOT_FOUND, with the remedy
  static Result<const OpenSsl*> Get();
};

}  // namespace sl::kernel

// SPDX-License-Identifier: Apache-2.0
//
// Who knocks at a listener, as strangers and peers do, and what this process may run short of meanwhile.
#pragma once

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "modules/transport-tcp/handshake.h"
#include "modules/transport-tcp/tests/fixture.h"
#include "sdk/fd.h"
#include "sdk/few_descriptors_test_util.h"

namespace sl::transport_tcp {

inline const Options kLoopback = {{"interfaces", "=lo"}};

inline Options With(const std::string& name, const std::string& value) {
  Options options = kLoopback;
  options[name] = value;
  return options;
}

inline Address Decoded(const sl_address_t& bytes) {
  Address address = {};
  EXPECT_TRUE(DecodeAddress(bytes, &address));
  return address;
}

// A plain socket connected to a listener, as a stranger would have it.
inline Fd Knock(const sl_address_t& bytes) {
  const Address address = Decoded(bytes);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  std::memcpy(&to.sin_addr, address.ip, 4);
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

inline bool HungUp(const Fd& fd) {
  char byte;
  const ssize_t got = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

;

// A peer of the job, a step at a time.
class Greeter {
 public:
  Greeter(const sl_address_t& bytes, uint8_t number, uint64_t window_bytes = 4096) : stream_(Knock(bytes)) {
    std::memset(secret_, 7, sizeof secret_);
    const Address address = Decoded(bytes);
    Nonce listener;
    Nonce fresh = {number};
    std::copy(std::begin(address.listener), std::end(address.listener), listener.begin());
    Hello hello = {};
    hello.to = 1;
    hello.tag = number;
    hello.window_bytes = window_bytes;
    caller_.emplace(secret_, hello, listener, fresh);
  }
  void SayHello() { Say(&caller_->hello(), sizeof(Hello)); }
  bool IsChallenged() {
    const ssize_t got = recv(stream_.get(), caller_->room(), caller_->room_bytes(), MSG_DONTWAIT);
    return got > 0 && caller_->Advance(static_cast<size_t>(got)) == Step::kDone;
  }
  const Fd& stream() const { return stream_; }
  void Confirm() { Say(&caller_->confirm(), sizeof caller_->confirm()); }

 private:
  void Say(const void* bytes, size_t count) {
    EXPECT_EQ(send(stream_.get(), bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
  }
  uint8_t secret_[32];
  const Fd stream_;
  std::optional<Caller> caller_;
};

}  // namespace sl::transport_tcp
